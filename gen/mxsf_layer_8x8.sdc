# Constraints of mxsf_layer_8x8. Times are in ns; what drives inputs and loads outputs is the flow's.
if {![info exists period]} { set period 2.0 }
create_clock -name clk -period $period [get_ports clk]
set_input_delay 0 -clock clk [all_inputs]
set_output_delay 0 -clock clk [all_outputs]
