// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import "encoding/binary"

// Fatbin wraps a text of PTX for an architecture as compilers do.
func Fatbin(text string, arch uint32) []byte {
	le := binary.LittleEndian
	entry := make([]byte, 64)
	size := uint32(len(text)+8) &^ 7
	le.PutUint16(entry, 1)
	le.PutUint16(entry[2:], 0x101)
	le.PutUint32(entry[4:], 64)
	le.PutUint32(entry[8:], size)
	le.PutUint16(entry[26:], 7)
	le.PutUint32(entry[28:], arch)
	le.PutUint32(entry[32:], 64)
	le.PutUint64(entry[40:], 0x11) // 64 bits, Linux
	out := le.AppendUint32(nil, 0xBA55ED50)
	out = le.AppendUint16(le.AppendUint16(out, 1), 16)
	out = le.AppendUint64(out, uint64(64+size))
	out = append(append(out, entry...), text...)
	return append(out, make([]byte, int(size)-len(text))...)
}

// Kernels is the module that the suite runs.
const Kernels = `
.version 7.0
.target sm_80
.address_size 64

.visible .global .align 4 .u32 counter = 7;
.visible .const .align 4 .b32 table[4] = {1, 2, 3, 4};
.visible .global .align 1 .b8 format[10] = {104, 101, 108, 108, 111, 32, 37, 100, 10, 0};
.visible .global .align 1 .b8 reason[6] = {119, 114, 111, 110, 103, 0};
.visible .global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};

.extern .func (.param .b32 ret) vprintf (.param .b64 f, .param .b64 a);
.extern .func (.param .b64 ret) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);

// add adds v to the thread's element.
.visible .entry add(.param .u64 p, .param .u32 v)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [v];
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mad.lo.u32 %r2, %r3, %r4, %r2;
	mul.wide.u32 %rd2, %r2, 4;
	add.u64 %rd3, %rd1, %rd2;
	ld.global.u32 %r5, [%rd3];
	add.u32 %r5, %r5, %r1;
	st.global.u32 [%rd3], %r5;
	ret;
}

// bump writes the counter and adds one to it.
.visible .entry bump(.param .u64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [counter];
	st.global.u32 [%rd1], %r1;
	add.u32 %r2, %r1, 1;
	st.global.u32 [counter], %r2;
	ret;
}

// poke writes v.
.visible .entry poke(.param .u64 p, .param .u32 v)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [v];
	st.global.u32 [%rd1], %r1;
	ret;
}

// spin waits until the word is not zero.
.visible .entry spin(.param .u64 p)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	.reg .pred %p1;
	ld.param.u64 %rd1, [p];
$again:
	ld.volatile.global.u32 %r1, [%rd1];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra $again;
	ret;
}

.visible .entry stop()
{
	trap;
	ret;
}

.visible .entry say(.param .u32 v)
{
	.local .align 8 .b8 buffer[8];
	.reg .b32 %r<3>;
	.reg .b64 %rd<5>;
	ld.param.u32 %r1, [v];
	mov.u64 %rd1, buffer;
	st.local.u32 [%rd1], %r1;
	cvta.local.u64 %rd2, %rd1;
	mov.u64 %rd3, format;
	cvta.global.u64 %rd4, %rd3;
	{
	.param .b64 param0;
	st.param.b64 [param0], %rd4;
	.param .b64 param1;
	st.param.b64 [param1], %rd2;
	.param .b32 retval0;
	call.uni (retval0), vprintf, (param0, param1);
	ld.param.b32 %r2, [retval0];
	}
	ret;
}

.visible .entry claim()
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<6>;
	mov.u64 %rd1, reason;
	cvta.global.u64 %rd2, %rd1;
	mov.u64 %rd3, file;
	cvta.global.u64 %rd4, %rd3;
	mov.u32 %r1, 42;
	mov.u64 %rd5, 1;
	{
	.param .b64 param0;
	st.param.b64 [param0], %rd2;
	.param .b64 param1;
	st.param.b64 [param1], %rd4;
	.param .b32 param2;
	st.param.b32 [param2], %r1;
	.param .b64 param3;
	st.param.b64 [param3], %rd4;
	.param .b64 param4;
	st.param.b64 [param4], %rd5;
	call.uni __assertfail, (param0, param1, param2, param3, param4);
	}
	ret;
}

.visible .entry limited() .maxntid 64, 1, 1
{
	ret;
}

.visible .entry exact() .reqntid 32, 2, 1
{
	ret;
}

.visible .entry shares()
{
	.shared .align 4 .b8 tile[1024];
	.reg .b32 %r<2>;
	mov.u32 %r1, 1;
	st.shared.u32 [tile], %r1;
	ret;
}

// grab allocates n bytes, writes v into them if it got them, and their address to p.
.visible .entry grab(.param .u64 p, .param .u32 n, .param .u32 v)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	.reg .pred %p1;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [v];
	cvt.u64.u32 %rd2, %r1;
	{
	.param .b64 param0;
	st.param.b64 [param0], %rd2;
	.param .b64 retval0;
	call.uni (retval0), malloc, (param0);
	ld.param.b64 %rd3, [retval0];
	}
	st.global.u64 [%rd1], %rd3;
	setp.eq.u64 %p1, %rd3, 0;
	@%p1 ret;
	st.u32 [%rd3], %r2;
	ret;
}

// peek reads what grab wrote.
.visible .entry peek(.param .u64 p, .param .u64 out)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [out];
	ld.global.u64 %rd3, [%rd1];
	ld.u32 %r1, [%rd3];
	st.global.u32 [%rd2], %r1;
	ret;
}

// drop frees the memory that grab allocated.
.visible .entry drop(.param .u64 p)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	ld.global.u64 %rd2, [%rd1];
	{
	.param .b64 param0;
	st.param.b64 [param0], %rd2;
	call.uni free, (param0);
	}
	ret;
}
`

// Needs has a variable that another module defines, and Defines defines that.
const (
	Needs = `
.version 7.0
.target sm_80
.address_size 64
.extern .global .align 4 .u32 answer;
.visible .entry ask(.param .u64 p)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [answer];
	st.global.u32 [%rd1], %r1;
	ret;
}
`
	Defines = `
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 answer = 42;
`
	// Broken is not PTX.
	Broken = `
.version 7.0
.target sm_80
.address_size 64
.visible .entry broken()
{
	frobnicate.u32 %r1, %r2;
	ret;
}
`
)
