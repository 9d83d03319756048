fp12_adder.v
parts/mxsafe_fp12_unpacker.v
parts/mxsafe_fp12_packer.v
