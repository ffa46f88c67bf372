from gossamer.testing.splits.campaign import SPLITS

if __name__ == "__main__":
    SPLITS.main(seeds=100)
