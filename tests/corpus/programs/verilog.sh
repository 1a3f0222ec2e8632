#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Icarus Verilog compiles a small processor with its memory and simulates it for thousands of cycles, wave forms and all
# Needs: iverilog
#SBATCH --job-name=verilog --ntasks=1 --output=log
set -eu
echo "compiling"
cat >cpu.v <<'V'
`timescale 1ns/1ps
module cpu(input clk, input reset, output reg [31:0] out, output reg strobe);
  reg [31:0] regs [0:7];
  reg [31:0] mem [0:1023];
  reg [15:0] code [0:63];
  reg [9:0] pc;
  wire [15:0] op = code[pc[5:0]];
  wire [2:0] d = op[11:9], a = op[8:6], b = op[5:3];
  integer i;
  initial begin
    for (i = 0; i < 1024; i = i + 1) mem[i] = i * 32'd2654435761;
    $readmemh("program.hex", code);
  end
  always @(posedge clk) begin
    strobe <= 0;
    if (reset) begin
      pc <= 0;
      for (i = 0; i < 8; i = i + 1) regs[i] <= i;
    end else begin
      pc <= pc + 1;
      case (op[15:12])
        4'h0: regs[d] <= regs[a] + regs[b];
        4'h1: regs[d] <= regs[a] ^ {regs[b][18:0], regs[b][31:19]};
        4'h2: regs[d] <= regs[a] * 32'd48271;
        4'h3: regs[d] <= mem[regs[a][9:0]];
        4'h4: mem[regs[a][9:0]] <= regs[b];
        4'h5: begin out <= regs[a]; strobe <= 1; end
        4'h6: if (regs[a][3:0] != 0) pc <= {4'b0, op[5:0]};
        default: pc <= 0;
      endcase
    end
  end
endmodule
module bench;
  reg clk = 0, reset = 1;
  wire [31:0] out;
  wire strobe;
  integer file, count = 0, cycles = 0, code;
  cpu dut(clk, reset, out, strobe);
  always #5 clk = ~clk;
  always @(posedge clk) begin
    cycles = cycles + 1;
    if (strobe) begin
      count = count + 1;
      $fdisplay(file, "%0d %h", cycles, out);
      if (count % 1500 == 0) begin $display("cycle %0d: %h", cycles, out); $fflush; end
    end
    if (cycles == 600000) begin $fclose(file); $finish(0); end
  end
  initial begin
    file = $fopen("outputs", "w");
    #22 reset = 0;
  end
  initial if ($test$plusargs("waves")) begin
    $dumpfile("waves.vcd");
    $dumpvars(0, bench);
    #400000 $dumpoff;
  end
endmodule
V
{ printf '%s\n' 1250 2440 3680 0258 4050 6040 5040; yes 7000 | head -n 57; } >program.hex
iverilog -g2012 -o cpu.vvp cpu.v
vvp cpu.vvp
mv outputs plain
vvp cpu.vvp +waves | tail -n 1
cmp plain outputs && echo "the same with wave forms"
sed '/\$date/,/\$end/d; /\$version/,/\$end/d' waves.vcd | sha256sum
rm cpu.vvp waves.vcd outputs
sha256sum plain
