from gossamer.testing.splits.scenarios import SPLITS

if __name__ == "__main__":
    SPLITS.main(seeds=100)
