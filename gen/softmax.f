softmax.v
parts/mxsafe_softmax_entry.v
parts/mxsafe_row_replay_summary_bits0.v
parts/mxsafe_softmax_core.v
parts/mxsafe_beat_memory.v
parts/mxsafe_softmax_constants.v
parts/mxsafe_softmax_logarithm.v
parts/mxsafe_softmax_lane.v
