// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the table of the calls that the shim intercepts: CUDA's driver, NCCL and NVML. The package
// reads the *.tbl files beside it, which are the data, and checks them. How a call is carried out is no matter
// of this package; package gen makes C and Go out of the table.
//
// A file holds a single area. A line that begins with white space continues the line before; # begins a comment. A file
// consists of:
//
//	area NAME LIB [free] "TITLE"     LIB is driver, nccl, nvml or libc. The area's calls depend on the
//	                                 caller's current context unless the area is free
//	reason NAME "TEXT"               why calls are refused
//	call SYMBOL VERSION [ptds|ptsz] KIND [OPTION…] (ARG, …)
//	msg NAME KIND [OPTION…] (ARG, …) a message that is no public call; hand-written code sends it
//
// and in types.tbl, structs.tbl, enums.tbl and results.tbl:
//
//	scalar WORD CTYPE WIRE           WIRE is u8 u16 u32 u64 i32 i64 f32 f64, or none (never sent)
//	handle WORD CTYPE WIRE MAKER [of=WORD]
//	                                 MAKER is client (made up by the shim), server, or refused;
//	                                 of: the handle ends with that handle
//	struct WORD CTYPE SIZE (NAME:WORD[N], …)
//	enum WORD PREFIX (NAME=N, NAME, …)
//	result LIB NUMBER NAME "TEXT"
//
// VERSION is the version from which cuGetProcAddress finds the symbol under its name, which is the symbol
// without its _v2, unless the row says whole; for NCCL and NVML the version that introduced the symbol. ptds
// and ptsz say that a second function exists for callers with a default stream per thread, with that suffix.
//
// KIND says how the call is carried out:
//
//	async     posted; success at once, failures late
//	counted   the same, and the barrier counts it: collectives, sends, receives
//	sync      a round trip without lasting effect
//	stateful  a round trip with an effect that must be there again after a restore
//	cached    a round trip with an answer that never changes, so the shim may keep it
//	local     answered in the shim, by hand
//	aware     by hand, because the shim must know the meaning of the call; =A+B names the messages
//	          that the call sends, else its own arguments are the message
//	same      =SYMBOL: an older version with the same arguments
//	planned   not written yet: refused by its name until then
//	refused   =REASON
//
// and OPTION:
//
//	unwritten       local or aware, and the hand-written part is not there yet. Without it, C defines
//	                sing_SYMBOL, and sing_SYMBOL_ptsz or _ptds, and exports them with SING_PUBLIC
//	also=NAME at=VERSION
//	                cuGetProcAddress finds the call under that name too
//	whole           cuGetProcAddress finds the call by its whole symbol: in the public header the name
//	                without the suffix stays the older call
//	gone=VERSION    the public header has no such name from that version on
//	changes=WORD    the object that the call changes without naming it: process, device, context, thread
//	free            needs no current context, in an area that does
//	replaces        a later call with the same handles and enumerations makes this call needless: only the
//	                last is replayed
//	always          answers come with failures too
//	returns=string  not the library's result
//	unsure="TEXT"   a detail of the row that is not certain
//
// An ARG is [opt] [in|out|inout|val] [make|use|change|break] NAME:WORD[COUNT]. Without a direction an argument is
// passed by value, or, if it is a struct or an array, as a pointer that the call reads from; val is a struct by value.
// COUNT is a number, an argument's name, or *NAME: where the argument points to the capacity and then the length. opt:
// the pointer may be NULL. A handle without a verb is used.
package api
