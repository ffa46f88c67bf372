from gossamer.testing.raft import RAFT, SCENARIOS

if __name__ == "__main__":
    RAFT.main(seeds=len(SCENARIOS))
