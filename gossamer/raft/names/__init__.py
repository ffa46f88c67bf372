"""Names with one holder in the whole cluster, whatever is cut or dies."""
