mxsf_decoder.v
