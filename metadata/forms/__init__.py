"""What people type about metadata: forms that keep it, say what is wrong by the field, and know what was seen."""
