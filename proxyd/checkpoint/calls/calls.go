// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"log/slog"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Names of the phases, as the contract has them. Prepare, freeze, drain, halt and dump have a call of the same name; the
// leader carries out cut by other calls, and commit alone.
const (
	PhasePrepare = rpc.PhasePrepare
	PhaseCut     = rpc.PhaseCut
	PhaseFreeze  = rpc.PhaseFreeze
	PhaseDrain   = rpc.PhaseDrain
	PhaseHalt    = rpc.PhaseHalt
	PhaseDump    = rpc.PhaseDump
	PhaseCommit  = rpc.PhaseCommit
)

// Call is a kind of call, with the types of its arguments and of its reply. A message of another release may lack
// fields, which are then zero.
type Call[Args, Reply any] struct {
	name        string // in the log, and of its message in proxyd.proto
	encodeArgs  func(Args) *rpc.CallRequest
	decodeArgs  func(*rpc.CallRequest) (Args, error)
	encodeReply func(Reply) (*rpc.CallReply, error)
	decodeReply func(*rpc.CallReply) (Reply, error)
}

// Calls during a checkpoint, in the order of the phases.
var (
	Prepare = Call[PrepareArgs, PrepareReply]{
		PhasePrepare, encodePrepareArgs, decodePrepareArgs, encodePrepareReply, decodePrepareReply,
	}
	// Exchange carries orders to and events from a device server, in phase cut.
	Exchange = Call[ExchangeArgs, ExchangeReply]{
		"exchange", encodeExchangeArgs, decodeExchangeArgs, encodeExchangeReply, decodeExchangeReply,
	}
	Freeze = emptyCall(PhaseFreeze)
	Drain  = Call[DrainArgs, Empty]{PhaseDrain, encodeDrainArgs, decodeDrainArgs, encodeNoReply, decodeNoReply}
	Halt   = emptyCall(PhaseHalt)
	Dump   = Call[DumpArgs, DumpReply]{PhaseDump, encodeDumpArgs, decodeDumpArgs, encodeDumpReply, decodeDumpReply}
	// Heartbeat says, from dump on, that the leader is alive.
	Heartbeat = emptyCall("heartbeat")
)

// After commit, a node receives Resume or Release.
var (
	// Resume lets the job run on. Resume also undoes an attempt.
	Resume = emptyCall("resume")
	// Release ends the job's processes: the nodes are free.
	Release = emptyCall("release")
)

// Calls during a restore.
var (
	MakeCapsules = Call[MakeCapsulesArgs, Empty]{
		"make_capsules", encodeMakeCapsulesArgs, decodeMakeCapsulesArgs, encodeNoReply, decodeNoReply,
	}
	// NodeRestored tells the leader that all programs of a node are restored.
	NodeRestored = emptyCall("node_restored")
	// Unrestored lists the programs of a node that are not restored yet.
	Unrestored = callWithoutArgs("unrestored", encodeUnrestored, decodeUnrestored)
	// ReconnectDevices connects the device servers of a job with each other. The reply has the address of each device
	// server of the node, by capsule.
	ReconnectDevices = Call[ReconnectDevicesArgs, map[int]string]{
		"reconnect_devices", encodeReconnectDevicesArgs, decodeReconnectDevicesArgs, encodeAddressesReply, decodeAddressesReply,
	}
	// Unlock unlocks the network: all programs are restored.
	Unlock = emptyCall("unlock")
)

// Calls during an upload.
var (
	// UploadShare copies a node's share into the store.
	UploadShare = Call[UploadShareArgs, upload.ShareReply]{
		"upload_share", encodeUploadShareArgs, decodeUploadShareArgs, encodeShareReply, decodeShareReply,
	}
	// ShareStatus asks how much of a node's share is in the store.
	ShareStatus = callWithoutArgs("share_status", encodeShareStatus, decodeShareStatus)
	// DropShare deletes a node's share: the upload is over.
	DropShare = emptyCall("drop_share")
)

// Calls at any time.
var (
	// AsksRequeue tells the leader that a program asks Slurm for a requeue.
	AsksRequeue = Call[runs.Requester, Empty]{
		"asks_requeue", encodeAsksRequeueArgs, decodeAsksRequeueArgs, encodeNoReply, decodeNoReply,
	}
	// ProgramRuns asks whether that program still runs.
	ProgramRuns = Call[runs.Requester, bool]{
		"program_runs", encodeProgramRunsArgs, decodeProgramRunsArgs, encodeProgramRunsReply, decodeProgramRunsReply,
	}
	// View lists the programs of a node, for singctl.
	View = callWithoutArgs("view", encodeViews, decodeViews)
	// RequestCheckpoint asks the leader for a checkpoint.
	RequestCheckpoint = Call[decisions.Request, Empty]{
		"request_checkpoint", encodeCheckpointRequest, decodeCheckpointRequest, encodeNoReply, decodeNoReply,
	}
	// AwaitDecision asks the leader, from a node on which Slurm has ended the job, whether the node's capsules are still
	// needed.
	AwaitDecision = emptyCall("await_decision")
)

// Name returns the call's name.
func (c Call[Args, Reply]) Name() string { return c.name }

// LogValue has the log show a call by its name.
func (c Call[Args, Reply]) LogValue() slog.Value { return slog.StringValue(c.name) }

// EncodeArgs makes the message of a call with arguments.
func (c Call[Args, Reply]) EncodeArgs(args Args) *rpc.CallRequest { return c.encodeArgs(args) }

// DecodeArgs returns the arguments in the message of a call.
func (c Call[Args, Reply]) DecodeArgs(req *rpc.CallRequest) (Args, error) { return c.decodeArgs(req) }

// EncodeReply makes the message of a reply.
func (c Call[Args, Reply]) EncodeReply(reply Reply) (*rpc.CallReply, error) {
	return c.encodeReply(reply)
}

// DecodeReply returns the reply in a message. An empty message is the zero reply.
func (c Call[Args, Reply]) DecodeReply(m *rpc.CallReply) (Reply, error) { return c.decodeReply(m) }

// callWithoutArgs defines a call without arguments.
func callWithoutArgs[Reply any](name string, encode func(Reply) (*rpc.CallReply, error), decode func(*rpc.CallReply) (Reply, error)) Call[Empty, Reply] {
	request := func(Empty) *rpc.CallRequest { return emptyRequest(name) }
	noArgs := func(*rpc.CallRequest) (Empty, error) { return Empty{}, nil }
	return Call[Empty, Reply]{name, request, noArgs, encode, decode}
}

// emptyCall defines a call without arguments, with a reply without content.
func emptyCall(name string) Call[Empty, Empty] {
	return callWithoutArgs(name, encodeNoReply, decodeNoReply)
}

// Empty stands for the arguments of a call without arguments, and for a reply without content.
type Empty struct{}

// PrepareArgs starts an attempt on a node.
type PrepareArgs struct {
	Release bool
	Run     int
	Stage   bool // reserve room in the stage
}

// PrepareReply describes the part of the job on a node.
type PrepareReply struct {
	Capsules   int
	Programs   int
	Bytes      uint64 // estimated size of the dump, an upper bound
	Obstacles  []processes.Obstacle
	Unrestored []string // programs that are not restored yet
	Steps      []string // keys of the steps that have an srun in the node's capsules

	TaskCounts map[string]int // number of tasks of each step, on all nodes
	TasksHere  map[string]int // number of tasks of each step that ran on this node

	Devices   []int // capsules that have a device server
	ManyFiles bool  // the newest dump of this run recorded many files or bytes

	Staged bool // room is reserved in the stage
}

// ExchangeArgs carries orders to the device server of a capsule.
type ExchangeArgs struct {
	Index  int
	Orders *cut.Orders
}

// ExchangeReply carries the errors that package cut distinguishes.
type ExchangeReply struct {
	Events    *cut.Events
	Forgotten bool
	Busy      bool
	Error     string
}

// DrainArgs says whether a node waits for the output in its sruns, or in its tasks' pipes and slurmstepd.
type DrainArgs struct {
	Sruns bool
}

// DumpArgs says where and how a node writes its share.
type DumpArgs struct {
	Ticket store.Ticket // of the leader's upload into the store; empty: into the node's stage
	Steps  []string     // keys of the steps that have an srun, on any node
	Cut    uint64       // number of the cut at which the devices stopped
	Base   uint32       // number of the checkpoint of which streams may be taken over
}

// DumpReply has the streams and capsules that a node adds to the manifest. The leader's own streams are in its writer,
// so its Part is nil.
type DumpReply struct {
	Part         *store.NodeStreams
	Capsules     []records.CapsuleMeta
	StageFull    bool // the share did not fit into the stage
	BaseUnusable bool // the base could not be read
	BaseUnused   bool // no stream of the base was taken over
}

// MakeCapsulesArgs tells a node which run resumes from which checkpoint.
type MakeCapsulesArgs struct {
	Number uint32
	Run    int
	Nodes  []string
}

// ReconnectDevicesArgs asks for the addresses of a node's device servers, or has them connect.
type ReconnectDevicesArgs struct {
	Peers map[int]string // address of each device server, by capsule; nil: return the addresses of this node
}

// UploadShareArgs names the upload that a node joins.
type UploadShareArgs struct {
	Ticket store.Ticket
}

// CapsuleView describes a capsule, and its obstacles to a checkpoint.
type CapsuleView struct {
	Capsule   *rpc.Capsule         // home, address and gpus are not set
	Obstacles []processes.Obstacle // parts that cannot be captured now
	Outside   []processes.Obstacle // connections to outside, which a restore resets
}
