// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package cuda implements backend.Backend for real devices, over the vendor's driver.
//
//	driver      libcuda.so.1 for Go; nccl, libnccl.so.2. All C is there
//	Backend     addresses, taken first of all                            backend.go
//	├─ device   its facts, and the server's own context and driver streams  device.go driver_stream.go
//	│  └─ team  a rank of NCCL's, in the device's primary context        team.go
//	├─ memory   physical memory, which the server sees in its window,    bytes.go swap.go window.go
//	│           or has in the host's memory, equal blocks once           swap_content.go block_sums.go host_copy.go
//	└─ space    the names of calls (package ledger); the view: memory     space.go alloc.go vmm.go host.go view.go
//	   │        that work finds at the program's addresses while mapped
//	   │        and can move to another device                         move.go move_contexts.go
//	   ├─ mappedRange   memory at an address, which a pool may keep       mapped_range.go
//	   └─ cudaContext   each a context of the driver: a fault stays there    context.go context_objects.go
//	      ├─ stream     a driver stream, and a queue before it           stream.go queue.go copy.go stream_words.go exchange.go launch.go
//	      ├─ mark       a point of a stream's work                       event.go clock.go
//	      ├─ module     code, and variables                              module.go variable.go facts.go
//	      └─ exec       a graph                                          graph.go graph_run.go
//
// # Without cgo
//
// The driver is never linked: it is opened at run time. That needs a program that is itself linked with the C library,
// and proxyd is not, so that one binary runs on every node, with any C library, and in capsules' namespaces. So there
// are two binaries from the same source: proxyd, in which Open fails with ErrNoCgo, and proxyd-cuda, made with cgo.
// proxyd executes proxyd-cuda only for a device server with real devices. On a node without a driver proxyd-cuda
// starts, too, and Open returns ErrNoDriver.
//
// # Addresses
//
// A process has one memory at an address, for all of its devices together. Spaces lie from DefaultBase on, 64 times as
// many addresses as there is memory; below is the window, in which the server has all physical memory mapped at all
// times, so that memory of spaces that are not mapped can be saved, zeroed, and copied. Both ranges are reserved first,
// and compared with the wanted addresses, because the driver takes an address as a hint. If the driver gives other
// addresses, Open fails with ErrAddresses, before any part of the job was torn down. Go's own heap may be there:
// proxyd-cuda is built with GOEXPERIMENT=norandomizedheapbase64, and any program can start again. Settle switches off
// the kernel's randomisation, for memory that the driver places by itself.
//
// Where memory is placed follows from the program's calls alone, by package ledger, as on the software GPU. Modules'
// variables are the exception: the driver places them, and cannot be told where. Their bytes are carried in an
// allocation of the space; when a module is loaded into a restored space, its variables must be where they were (the
// driver does the same for the same calls), else Load refuses with the variable's name. (The just-in-time compiler's
// CU_JIT_GLOBAL_SYMBOL_ADDRESSES may be a way to place the variables of PTX. This was not tried.) A variable that the
// driver does not find by its name cannot be saved: then Blocks fails and names the variable. So that variables do not
// depend on the kernels that a program has used, a driver that loads each kernel when it is looked up is asked for all
// kernels of a module when the module is loaded (findKernels).
//
// # Order
//
// A call is handed to the driver at once, in the caller's thread, if nothing in its stream waits for this process.
// Other work (memory that only the program reaches, host functions, collectives, values, memory that is to be
// mapped) goes through a queue, and so does all later work, until the queue is empty. So a host function that waits
// holds up its stream only, work of a space that is not mapped waits, and no thread of the driver's is ever blocked.
// The legacy stream's order is made here, with events of the driver's between streams that do not know each other.
//
// Locks:
//
//	Backend.mu → space.mu → view.mu → memory.mu → window.mu, Backend.hostMu; of a memory that has its twin's mu, too:
//	memory.mu → takeover.mu; memory.mu → summer.mu; hostStore.mu is taken last
//	exec.Mu → cudaContext.mu → space.mu; cudaContext.mu → stream.mu → gate; ending → function.lookedUp, mark.mu, clock.mu are taken last
//	space.steady → cudaContext.moving → cudaContext.mu → space.mu → ending → memory.mu, of a move
//
// # Differences from the software GPU
//
//   - An access beyond an allocation, but within its granule, is not found, nor one to memory that a pool keeps.
//   - Memory that AllocAsync returns has bytes that the program left there, as the driver's does.
//   - Two spaces with addresses in common are not mapped at the same time, even of different devices.
//   - The memory of kernels' malloc is the driver's: such memory is not saved, and a state with some is refused.
//   - Text that kernels print appears on the server's standard output; SpaceConfig.Output is not called.
//   - Host memory for MapHost must be shared memory, because it is mapped a second time.
//   - Limits of dynamic parallelism are refused.
//   - A fault of a kernel ends the use of the device for all spaces of the process.
//   - Ending a context or a space waits for its kernels; only the end of the process cuts short one that never ends.
//   - A graph that names memory which was freed since cannot be made again: its state is refused by name.
//
// # Moves
//
// A space that is not mapped moves to another device (backend.Mover, move.go): its contexts end and are made again from
// what the program has set and loaded, so a module's image is kept where there is more than one device. Work that the
// driver was given is done by then; queued work finds the new handles when its turn comes. A mark that was recorded in
// an earlier context of the driver's is passed. NotReady: memory is lent to a collective or being copied, a call makes
// or ends an object, or queued work uses a module that was unloaded. NotSupported: a variable would come to lie
// elsewhere, by which a restore would be refused too; or the driver does not give a new context the addresses of a
// context that has ended, which is tried with contexts of our own first.
//
// # Collectives
//
// A device can be in teams (backend.Teams): each is a communicator of NCCL's. NCCL is opened at run time like the
// driver, and a node may lack it. The communicator is made without blocking and polled, so that the making can be given
// up. Its operations are issued in a stream of the device's primary context, when the program's stream has come to
// them, and the program's stream goes on when they are done: the host waits in between. Memory is named by its address
// in the window, and held there, so that the space may give way meanwhile. Work without a team has the bytes copied to
// the host's memory.
//
// Communicators are split and made again by server, each with an id of its own: ncclCommSplit is not called.
//
// # Seen on hardware
//
// On one H100 with driver 580 (docs/gpu.md): reservations come where they are asked for; memory is mapped twice (window
// and view); contexts of cuCtxCreate see memory of cuMemMap; NCCL takes such memory. A fault ends the process's use of
// the device: no context outlives one. Ending a context waits for its kernels. The driver's own reservations depend on
// their order (driver/reserve.c). Not seen: two GPUs, so no move of a space; the effect of ncclCommAbort on kernels that
// wait; the kernel that makes sums of blocks, which the software GPU has executed (TestSumKernel); what the driver's
// cuFuncIsLoaded says of a kernel that was not looked up (findKernels); and whether cuMemUnmap or cuMemSetAccess waits for
// kernels of other contexts. Ranks that take turns on two GPUs need a driver that does not: the kernel of a team may wait
// for a rank that comes to its turn on the other GPU later.
package cuda
