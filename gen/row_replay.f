row_replay.v
parts/mxsafe_beat_memory.v
