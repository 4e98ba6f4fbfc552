"""What people write: units, values, and the problems that are found in them. It knows nothing of what they are for."""
