// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import "time"

// The neutral model of a Slurm cluster, the same for all versions of the REST API. A time that
// Slurm has not set is zero. Texts are as Slurm has them, except that TRES requests are spelled
// "gres/gpu:2" always (releases before 23.11 say "gres:gpu:2"). The types are plain values: copy
// them freely.

// Job is a job record. An array that has not started is a single record for all of its pending
// tasks (Array.Tasks lists the tasks); each started task has its own record.
type Job struct {
	ID         int64 // unique in the cluster; an array's task has its own
	Array      Array
	Het        Het
	Federation Federation
	Cluster    string

	Name        string
	User        string
	UserID      int64
	GroupID     int64
	Account     string
	Partition   string
	QOS         string
	Reservation string

	State             State
	Reason            string // why the job is pending or failed: "Priority", "JobHeldUser"
	ReasonDetail      string
	Comment           string
	AdminComment      string
	SystemComment     string
	Priority          Number
	Held              bool
	Restarts          int64 // number of requeues
	Requeueable       bool
	Batch             bool // has a batch script; only such a job can be requeued
	ExitCode          ExitCode
	DerivedExitCode   ExitCode // the highest of its steps
	Dependency        string
	RequestedFeatures string

	Nodes          string // allocated, as a host list expression
	RequiredNodes  string
	ExcludedNodes  string
	ScheduledNodes string // where the job is planned to start, if it is
	BatchHost      string
	FailedNode     string
	NodeCount      Number // allocated, or the least requested
	MaxNodes       Number
	Tasks          Number
	TasksPerNode   Number
	MinCPUsPerNode Number
	CPUs           Number
	CPUsPerTask    Number
	MemoryPerNode  Number // MiB
	MemoryPerCPU   Number // MiB
	Layout         []NodeLayout

	TRESPerJob    string
	TRESPerNode   string // "gres/gpu:2"
	TRESPerSocket string
	TRESPerTask   string
	TRESRequested string   // "cpu=2,mem=1G,node=1,billing=2"
	TRESAllocated string   // likewise, "" until started
	GRESDetail    []string // "gpu:2(IDX:0-1)", a text per allocated node

	TimeLimit   Limit
	TimeMinimum Limit

	SubmitTime      time.Time // of the last requeue, if any
	EligibleTime    time.Time // the job does not start before (begin_time)
	StartTime       time.Time // expected, while pending
	EndTime         time.Time // expected, until the job is over
	PreemptTime     time.Time // when the job was told that it will be preempted
	PreemptableTime time.Time
	SuspendTime     time.Time
	ResizeTime      time.Time
	Deadline        time.Time

	WorkDir string
	StdIn   string
	StdOut  string
	StdErr  string
}

// Array is a job's place in a job array. The zero value means: not in an array.
type Array struct {
	JobID int64  // the array's own id
	Task  Number // unset in the record of the tasks that have not started
	Tasks string // those tasks: "2-5,9"
}

// Het is a job's place in a heterogeneous job. The zero value means: not in a heterogeneous job.
type Het struct {
	JobID  int64  // the leader's id
	Offset int64  // which component; the leader is 0
	IDs    string // the ids of all components: "12-14"
}

// Federation is where a federated job lives. All are empty elsewhere.
type Federation struct {
	Origin         string
	SiblingsActive string // clusters that run the job, separated by commas
	SiblingsViable string // clusters that could
}

// ExitCode is how a job or its worst step ended. The zero value is success, or not
// ended yet.
type ExitCode struct {
	Code   int64
	Signal int64 // 0 unless a signal ended it
}

// NodeLayout is a job's share of a node.
type NodeLayout struct {
	Node   string
	CPUs   int64
	Memory int64 // MiB
}

// Node is a node.
type Node struct {
	Name            string
	Hostname        string
	Address         string
	State           NodeState
	Reason          string // why the node is drained or down
	ReasonBy        string
	ReasonTime      time.Time
	Comment         string
	Partitions      []string
	Features        []string
	ActiveFeatures  []string
	GRES            string // "gpu:2"
	GRESUsed        string // "gpu:1(IDX:0)"
	TRES            string // "cpu=4,mem=8G,billing=4,gres/gpu=2"
	TRESUsed        string
	CPUs            int64
	AllocatedCPUs   int64
	RealMemory      int64 // MiB, like the two below
	AllocatedMemory int64
	FreeMemory      Number
	Sockets         int64
	Cores           int64 // per socket
	Threads         int64 // per core
	Weight          int64
	Version         string // slurmd's
	BootTime        time.Time
	SlurmdStartTime time.Time
	LastBusy        time.Time
}

// NodeState is a node's state: a base state and flags, in Slurm's words.
type NodeState struct {
	Base  string   // "IDLE", "ALLOCATED", "MIXED", "DOWN", …
	Flags []string // "DRAIN", "COMPLETING", "NOT_RESPONDING", …
}

// Has reports whether the flag is set.
func (n NodeState) Has(flag string) bool {
	for _, f := range n.Flags {
		if f == flag {
			return true
		}
	}
	return false
}

// Draining reports whether the node takes no new job because of a drain.
func (n NodeState) Draining() bool { return n.Has("DRAIN") }

// Partition is a partition.
type Partition struct {
	Name           string
	State          string // "UP", "DOWN", "DRAIN", "INACTIVE"
	Nodes          string // host list expression
	TotalNodes     int64
	TotalCPUs      int64
	TRES           string
	MaxTime        Limit
	DefaultTime    Limit
	MinNodes       int64
	MaxNodes       Number
	GraceTime      time.Duration // between the warning and a preemption
	PriorityTier   int64
	PriorityFactor int64
	QOS            string // limits of this QOS bind all of its jobs
	AllowedQOS     string
	AllowedAccount string
	PreemptMode    []string // empty where the server does not say (before v0.0.43, other than v0.0.38)
}

// QOS is a quality of service.
type QOS struct {
	Name          string
	ID            int64
	Description   string
	Priority      Number
	Flags         []string
	GraceTime     time.Duration
	Preempts      []string // QOS with jobs that may be preempted by jobs of this QOS
	PreemptMode   []string
	PreemptExempt Limit // a job is safe from preemption for so long
	MaxWallPerJob Limit
	GroupTRES     []TRES // all of its running jobs together
	MaxTRESPerJob []TRES
	MaxTRESOfUser []TRES
	MinTRESPerJob []TRES
}

// TRES is a count of a trackable resource.
type TRES struct {
	Type  string // "cpu", "mem", "gres", …
	Name  string // "gpu", where the type has names
	ID    int64
	Count int64
}

// Reservation is an advance reservation.
type Reservation struct {
	Name      string
	Start     time.Time
	End       time.Time
	Nodes     string
	NodeCount int64
	CoreCount int64
	Partition string
	Users     string
	Accounts  string
	Groups    string
	Features  string
	Licenses  string
	TRES      string
	Flags     []string
}

// Diag has slurmctld's counters about its own health.
type Diag struct {
	At                time.Time // when slurmctld answered
	Since             time.Time // when the counters began
	ServerThreads     int64
	AgentQueue        int64
	AgentThreads      int64
	DBDAgentQueue     int64 // accounting messages that slurmdbd has not taken
	JobsSubmitted     int64
	JobsStarted       int64
	JobsCompleted     int64
	JobsCancelled     int64
	JobsFailed        int64
	JobsPending       int64
	JobsRunning       int64
	ScheduleCycleLast time.Duration
	ScheduleCycleMax  time.Duration
	ScheduleCycleMean time.Duration
	ScheduleCycles    int64
	ScheduleQueue     int64
	BackfillActive    bool
	BackfillCycleLast time.Duration
	BackfillCycleMax  time.Duration
	BackfillCycleMean time.Duration
	BackfillCycles    int64
	BackfillQueue     int64
	BackfilledJobs    int64
}

// Controller is a slurmctld.
type Controller struct {
	Host    string
	Primary bool
	Up      bool
	Latency time.Duration // 0 where the server does not say
	Problem string        // why the controller is not up; "" where the server does not say
}

// ClusterInfo describes the cluster behind the server.
type ClusterInfo struct {
	Name        string // "" where the server does not say (v0.0.38 without slurmdbd)
	Release     string // of Slurm: "26.05.3"
	Version     string // of the REST API, as negotiated: "v0.0.45"
	Controllers []Controller
}
