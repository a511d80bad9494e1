"""Other engines that read a warehouse by its catalog."""
