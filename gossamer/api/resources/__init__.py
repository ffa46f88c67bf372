"""Resources: one module for each, which gives its routes below ``/api/v1``."""
