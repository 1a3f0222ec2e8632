// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Names of the phases, as the contract has them. Each but cut and commit is also the name of a call: see All.
const (
	PhasePrepare = rpc.PhasePrepare
	PhaseCut     = rpc.PhaseCut
	PhaseFreeze  = rpc.PhaseFreeze
	PhaseDrain   = rpc.PhaseDrain
	PhaseHalt    = rpc.PhaseHalt
	PhaseDump    = rpc.PhaseDump
	PhaseCommit  = rpc.PhaseCommit
)

// Names of the other calls, in code, in the log, and of their messages in proxyd.proto.
const (
	// During a checkpoint:
	Exchange  = "exchange"  // in phase cut: orders to and events from a device server
	Heartbeat = "heartbeat" // from dump on: the leader is alive

	// After commit, either of these:
	Resume  = "resume"  // the job runs on; also undoes an attempt
	Release = "release" // end the job's processes: the nodes are free

	// During a restore:
	MakeCapsules     = "make_capsules"     // make the capsules
	NodeRestored     = "node_restored"     // a node tells the leader that all its programs are restored
	Unrestored       = "unrestored"        // list the programs of a node that are not restored yet
	ReconnectDevices = "reconnect_devices" // connect the device servers with each other
	Unlock           = "unlock"            // unlock the network: all programs are restored

	// During an upload:
	UploadShare = "upload_share" // copy a node's share into the store
	ShareStatus = "share_status" // how much of a node's share is in the store
	DropShare   = "drop_share"   // delete a node's share: the upload is over

	// At any time:
	AsksRequeue       = "asks_requeue"       // to the leader: a program asks Slurm for a requeue
	ProgramRuns       = "program_runs"       // ask whether that program still runs
	View              = "view"               // list the programs of a node, for singctl
	RequestCheckpoint = "request_checkpoint" // a node asks the leader for a checkpoint
	AwaitDecision     = "await_decision"     // a node on which Slurm has ended the job asks whether its capsules are still needed
)

// All returns the names of all calls. Phases cut and commit have no call: the leader carries out cut by other calls,
// and commit alone.
func All() []string {
	return []string{
		PhasePrepare, PhaseFreeze, PhaseDrain, PhaseHalt, PhaseDump, Exchange, Heartbeat, Resume, Release,
		MakeCapsules, NodeRestored, Unrestored, ReconnectDevices, Unlock, UploadShare, ShareStatus, DropShare,
		AsksRequeue, ProgramRuns, View, RequestCheckpoint, AwaitDecision,
	}
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
