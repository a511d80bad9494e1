"""The API under load: requests that come when they come, whether or not the one before was answered."""
