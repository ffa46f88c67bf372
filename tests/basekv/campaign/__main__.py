from tests.basekv.campaign import RANGES, SCENARIOS

if __name__ == "__main__":
    RANGES.main(seeds=len(SCENARIOS))
