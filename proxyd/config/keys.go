// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// keys are all keys, in the order in which Explain prints them.
var keys = table.Table[Config]{Daemon: "proxyd", Variables: "SINGULARITY_SLURM_", Keys: []table.Key[Config]{
	{Name: "shared", Meaning: "Folder on a file system that all nodes share, such as /shared/singularity. Owned by root.\nCheckpoints are in store/ below it, what nodes must agree on in jobs/.",
		Set: wantPath(func(c *Config) *string { return &c.Shared })},
	{Name: "key_file", Default: "/etc/singularity-slurm/key", Meaning: "Secret with which checkpoints are sealed: the same on all nodes, readable by root only.",
		Set: wantPath(func(c *Config) *string { return &c.KeyFile })},
	{Name: "node_name", Meaning: "This node, as Slurm names it. Empty: the host name up to the first dot.",
		Set: table.Text(func(c *Config) *string { return &c.NodeName }, nodeName, "a node name as in slurm.conf")},
	{Name: "listen", Default: ":6830", Meaning: "Address and port for singctl and the other nodes. The port must be the same on all nodes.",
		Set: table.Text(func(c *Config) *string { return &c.Listen }, hostPort, "[ADDRESS]:PORT")},
	{Name: "operators", Meaning: "Who besides root and SlurmUser may act on everybody's jobs: users, and groups as @name.",
		Set: wantNames(func(c *Config) *[]string { return &c.Operators }), List: true},

	{Name: "run_dir", Default: "/run/singularity-slurm", Meaning: "Sockets.",
		Set: wantPath(func(c *Config) *string { return &c.RunDir })},
	{Name: "lib_dir", Default: "/var/lib/singularity-slurm", Meaning: "Capsules; on a local disk.",
		Set: wantPath(func(c *Config) *string { return &c.LibDir })},

	{Name: "interval", Default: "auto", Meaning: "How often running jobs are checkpointed that do not say so themselves, such as 30m. auto: as fits what a checkpoint\nof the job costs and how often its nodes fail, from 10m to 4h, at most 1 % of its time. 0: never.",
		Set: ageOrAuto(func(c *Config) *time.Duration { return &c.Interval }, 10*time.Second)},
	{Name: "node_mtbf", Default: "150d", Meaning: "Mean time between failures of one node, for interval: auto.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.NodeMTBF }, time.Hour)},
	{Name: "obstacle_interval", Default: "5m", Meaning: "How often running jobs are searched for obstacles to a capture, after a first look half a minute\nafter their start. An obstacle is in the job's comment until it is gone. 0: only that first look.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.ObstacleInterval }, 10*time.Second)},
	{Name: "kill_wait_margin", Default: "5s", Meaning: "Time before Slurm's SIGKILL that doctor wants to be left after a checkpoint.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.KillWaitMargin }, 0)},
	{Name: "on_time_limit", Default: "requeue", Meaning: "How a job ends that reaches its time limit: requeue, hold (requeued and held) or end (as without --singularity).",
		Set: wantChoice(func(c *Config) *string { return &c.OnTimeLimit }, "requeue", "hold", "end")},
	{Name: "without_checkpoint", Default: "restart", Meaning: "The fate of a job that Slurm starts again and that has no checkpoint: restart or hold.",
		Set: wantChoice(func(c *Config) *string { return &c.WithoutCheckpoint }, "restart", "hold")},
	{Name: "on_failure", Default: "hold", Meaning: "The fate of a job whose checkpoint cannot be restored, unless the job says so itself: hold or restart.",
		Set: wantChoice(func(c *Config) *string { return &c.OnFailure }, "hold", "restart")},
	{Name: "restore_as_root", Default: "refuse", Meaning: "The fate of a job with System V objects (shared memory, semaphores, queues) whose checkpoint is to be restored where\nthe kernel, before Linux 5.17, lets root alone choose their numbers: refuse (the job is held) or allow (criu restores\nit as root, and its user can have root open a file by a link: see security.md).",
		Set: wantChoice(func(c *Config) *string { return &c.RestoreAsRoot }, "refuse", "allow")},
	{Name: "outside", Default: "reset", Meaning: "The fate of a job's TCP connections to hosts outside of the job when it resumes, unless the job says so itself:\nreset (its programs find them reset), relay (they go through the site's relay, which keeps them) or refuse (the job\nis not captured while it has any).",
		Set: wantChoice(func(c *Config) *string { return &c.Outside }, "reset", "relay", "refuse")},
	{Name: "relay", Meaning: "The site's relay (proxyd relay), which keeps connections of jobs with --singularity-outside=relay while these are\naway: HOST:PORT. Empty: there is none, and such jobs are refused.",
		Set: table.Text(func(c *Config) *string { return &c.Relay }, relayAddress, "HOST:PORT")},
	{Name: "keep", Default: "2", Meaning: "Newest checkpoints of each job that are kept.",
		Set: table.Number(func(c *Config) *int { return &c.Keep }, 1, 1000)},
	{Name: "keep_for", Default: "7d", Meaning: "Of jobs that have ended, checkpoints that were made longer ago than this go at the next collection, and\ntime lines this long after the end. 0: at the next collection.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.KeepFor }, 0)},

	{Name: "staging.folder", Meaning: "Folder of this node, on a fast disk or a tmpfs, where checkpoints land first; they are brought into the\nstore while the job runs on, or its nodes are free. Owned by root. Empty: straight into the store.",
		Set: wantPath(func(c *Config) *string { return &c.Staging.Folder })},
	{Name: "staging.size", Default: "0", Meaning: "The space that checkpoints may take there, such as 200G. One that finds no room goes straight into the store.\n0: all that the file system has.",
		Set: table.Bytes(func(c *Config) *uint64 { return &c.Staging.Size })},
	{Name: "staging.rate", Default: "0", Meaning: "Bytes a second that this node brings into the store at most, such as 500M. 0: no limit.",
		Set: table.Bytes(func(c *Config) *uint64 { return &c.Staging.Rate })},
	{Name: "staging.patience", Default: "5m", Meaning: "How long a job that is started again waits for a node that has a part of its newest checkpoint and\ndoes not answer. Then it goes on from an older one. 0: for ever.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Staging.Patience }, 10*time.Second)},

	{Name: "devices.kind", Default: "none", Meaning: "The GPUs that jobs have: none (the node's own, and a job that uses one is not captured), cuda\n(the node's GPUs, held by device servers: needs proxyd-cuda) or soft (software GPUs, as many as Slurm gives the\njob GPUs: for trying and testing, without hardware).",
		Set: wantChoice(func(c *Config) *string { return &c.Devices.Kind }, "none", "soft", "cuda")},
	{Name: "devices.memory", Default: "4G", Meaning: "Memory of each software GPU, from 2M to 1T.",
		Set: bytesIn(func(c *Config) *uint64 { return &c.Devices.Memory }, 2<<20, 1<<40, "a size from 2M to 1T")},
	{Name: "devices.capability", Default: "10.0", Meaning: "Compute capability that software GPUs show: 8.0, 8.9, 9.0 or 10.0, the same on all nodes. Below 10.0 cuBLAS and\nits like load machine code, which software GPUs cannot run.",
		Set: wantCapability(func(c *Config) *string { return &c.Devices.Capability })},
	{Name: "devices.kernels", Default: "compiled", Meaning: "How software GPUs execute kernels: compiled, as machine code, where the node's processor has AVX-512 (F, DQ, BW, VL,\nCD and VPOPCNTDQ; elsewhere they are interpreted, many times slower), or interpreted. The results are the same bits.",
		Set: wantChoice(func(c *Config) *string { return &c.Devices.Kernels }, "compiled", "interpreted")},
	{Name: "devices.blas", Default: "vendor", Meaning: "The library that computes the matrix products of cuBLAS on software GPUs: vendor, which is cuBLAS itself, or native, the software GPU,\nwhich is many times faster and rounds in an order of its own. SINGULARITY_SLURM_BLAS in a job's environment comes first.",
		Set: wantChoice(func(c *Config) *string { return &c.Devices.Blas }, "vendor", "native")},
	{Name: "devices.address", Meaning: "Address of this node at which device servers of other nodes reach it, for collectives. Empty: the one that\nSlurm knows of it.",
		Set: table.Text(func(c *Config) *string { return &c.Devices.Address }, isAddress, "an address of this node, as in 10.0.0.7")},

	{Name: "network.range", Default: "100.64.0.0/10", Meaning: "Virtual addresses of capsules. Must not be used by anything else that jobs talk to.",
		Set: wantPrefix(func(c *Config) *netip.Prefix { return &c.Network.Range })},
	{Name: "network.mode", Default: "auto", Meaning: "How nodes reach each other's capsules: route (neighbours), vxlan, or auto (what each pair needs).",
		Set: wantChoice(func(c *Config) *string { return &c.Network.Mode }, "auto", "route", "vxlan")},
	{Name: "network.device", Meaning: "Network device towards the other nodes. Empty: that of the route to each.",
		Set: table.Text(func(c *Config) *string { return &c.Network.Device }, deviceName, "a network device")},
	{Name: "network.short_path", Default: "auto", Meaning: "Whether packets between a job's capsules pass by the nodes' routing and netfilter, handed over by a BPF program: auto\n(where no other rules look at packets) or off.",
		Set: wantChoice(func(c *Config) *string { return &c.Network.ShortPath }, "auto", "off")},

	{Name: "scontrol", Default: "scontrol", Meaning: "Slurm's scontrol.",
		Set: wantProgram(func(c *Config) *string { return &c.Scontrol })},
	{Name: "srun", Default: "srun", Meaning: "The real srun.",
		Set: wantProgram(func(c *Config) *string { return &c.Srun })},
	{Name: "munge_socket", Meaning: "Socket of munged. Empty: munge's own default.",
		Set: wantPath(func(c *Config) *string { return &c.MungeSocket })},
	{Name: "metrics.address", Meaning: "Where Prometheus finds /metrics, to anybody who asks: [ADDRESS]:PORT. Empty: nowhere.",
		Set: table.Text(func(c *Config) *string { return &c.Metrics.Address }, hostPort, "[ADDRESS]:PORT")},
	{Name: "log.level", Default: "info", Meaning: "debug, info, warn or error.",
		Set: table.LogLevel(func(c *Config) *table.Log { return &c.Log })},
	{Name: "log.format", Default: "text", Meaning: "text (key=value) or json, one object a line.",
		Set: table.LogFormat(func(c *Config) *table.Log { return &c.Log })},
}}
