from gossamer.testing.roaming.faults import FAULTS, ROAMING

if __name__ == "__main__":
    ROAMING.main(seeds=len(FAULTS))
