pytest_plugins = ["gossamer.testing.plugin"]
