// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// double doubles a float for each thread of a block.
const double = `
.version 8.4
.target sm_80
.address_size 64

.visible .entry double(.param .u64 array)
{
	.reg .u64 %a, %i;
	.reg .u32 %t;
	.reg .f32 %f;

	ld.param.u64 %a, [array];
	mov.u32 %t, %tid.x;
	mul.wide.u32 %i, %t, 4;
	add.u64 %a, %a, %i;
	ld.global.f32 %f, [%a];
	add.f32 %f, %f, %f;
	st.global.f32 [%a], %f;
	ret;
}
`

// Example parses, links and launches a kernel over memory of the caller's.
func Example() {
	module, err := ptx.Parse("double.ptx", double)
	if err != nil {
		log.Fatal(err)
	}
	program, err := ptx.Link(module)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := program.Place(0x10_0000_0000); err != nil { // it has no globals
		log.Fatal(err)
	}
	kernel, err := program.Kernel("double")
	if err != nil {
		log.Fatal(err)
	}

	const address = 0x20_0000_0000
	array := make([]byte, 64)
	for i := range 4 {
		binary.LittleEndian.PutUint32(array[4*i:], math.Float32bits(float32(i)+0.5))
	}
	var memory memory.Memory
	if err := memory.Map(address, array, false); err != nil {
		log.Fatal(err)
	}
	err = kernel.Launch(context.Background(), ptx.Config{
		Grid: ptx.Dim3{X: 1, Y: 1, Z: 1}, Block: ptx.Dim3{X: 4, Y: 1, Z: 1},
		Params: binary.LittleEndian.AppendUint64(nil, address), Memory: &memory,
	})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 4 {
		fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(array[4*i:])))
	}
	// Output:
	// 1
	// 3
	// 5
	// 7
}

// Parse reports an error with its line.
func ExampleParse() {
	_, err := ptx.Parse("wrong.ptx", ".version 8.4\n.target sm_80\n.address_size 64\n.entry k() { .reg .u32 %r; mov.u32 %r 5; }\n")
	var syntax *ptx.SyntaxError
	fmt.Println(errors.As(err, &syntax))
	fmt.Println(err)
	// Output:
	// true
	// wrong.ptx, line 4: ";" expected, found "5"
}
