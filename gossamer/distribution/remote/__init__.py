"""Remote processes, remote calls, global names and process groups."""
