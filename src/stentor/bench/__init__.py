"""Load, scores and reports; talks to servers over HTTP only."""
