"""Published names: which exist, and how other engines find them."""
