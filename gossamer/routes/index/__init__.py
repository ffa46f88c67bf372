"""Topic filters by topic: the trie, its compiled kernel's twin in Python, and a cache before both."""
