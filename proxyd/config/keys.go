// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// key is one line of proxyd.yaml.
type key struct {
	name  string // dots lead into a section
	value string // the default, as one would write it; may be empty
	what  string // for an administrator
	// set reads a value into its field, or says what is accepted.
	set func(c *Config, value string) error
	// list: the value may be a YAML list; its items are joined by commas.
	list bool
}

// keys is all there is to configure, in the order in which it is explained.
var keys = []key{
	{"shared", "", "Folder on a file system that all nodes share, such as /shared/singularity. Owned by root.\nCheckpoints are in store/ below it, what nodes must agree on in jobs/.",
		path(func(c *Config) *string { return &c.Shared }), false},
	{"key_file", "/etc/singularity-slurm/key", "Secret with which checkpoints are sealed: the same on all nodes, readable by root only.",
		path(func(c *Config) *string { return &c.KeyFile }), false},
	{"node_name", "", "This node, as Slurm names it. Empty: the host name up to the first dot.",
		text(func(c *Config) *string { return &c.NodeName }, nodeName, "a node name as in slurm.conf"), false},
	{"listen", ":6830", "Address and port for singctl and the other nodes. The port must be the same on all nodes.",
		text(func(c *Config) *string { return &c.Listen }, hostPort, "[ADDRESS]:PORT"), false},
	{"operators", "", "Who besides root and SlurmUser may act on everybody's jobs: users, and groups as @name.",
		names(func(c *Config) *[]string { return &c.Operators }), true},

	{"run_dir", "/run/singularity-slurm", "Sockets.",
		path(func(c *Config) *string { return &c.RunDir }), false},
	{"lib_dir", "/var/lib/singularity-slurm", "Capsules; on a local disk.",
		path(func(c *Config) *string { return &c.LibDir }), false},

	{"interval", "0", "How often running jobs are checkpointed that do not say so themselves, such as 30m. 0: never.",
		age(func(c *Config) *duration { return &c.Interval }, 10*second), false},
	{"kill_wait_margin", "5s", "Time before Slurm's SIGKILL that doctor wants to be left after a checkpoint.",
		age(func(c *Config) *duration { return &c.KillWaitMargin }, 0), false},
	{"on_time_limit", "requeue", "What becomes of a job at its time limit: requeue, hold (requeued and held) or end (as without us).",
		choice(func(c *Config) *string { return &c.OnTimeLimit }, "requeue", "hold", "end"), false},
	{"without_checkpoint", "restart", "What becomes of a job that Slurm starts again and that has no checkpoint: restart or hold.",
		choice(func(c *Config) *string { return &c.WithoutCheckpoint }, "restart", "hold"), false},
	{"on_failure", "hold", "What becomes of a job whose checkpoint cannot be restored, unless it says so itself: hold or restart.",
		choice(func(c *Config) *string { return &c.OnFailure }, "hold", "restart"), false},
	{"keep", "2", "Newest checkpoints of each job that are kept.",
		number(func(c *Config) *int { return &c.Keep }, 1, 1000), false},
	{"keep_for", "7d", "How long checkpoints of jobs that have ended are kept. 0: they go at the next collection.",
		age(func(c *Config) *duration { return &c.KeepFor }, 0), false},

	{"staging.folder", "", "Folder of this node, on a fast disk or a tmpfs, where checkpoints land first; they are brought into the\nstore while the job runs on, or its nodes are free. Owned by root. Empty: straight into the store.",
		path(func(c *Config) *string { return &c.Staging.Folder }), false},
	{"staging.size", "0", "What checkpoints may take there, such as 200G. One that finds no room goes straight into the store.\n0: what the file system has.",
		bytesOf(func(c *Config) *uint64 { return &c.Staging.Size }), false},
	{"staging.rate", "0", "Bytes a second that this node brings into the store at most, such as 500M. 0: no limit.",
		bytesOf(func(c *Config) *uint64 { return &c.Staging.Rate }), false},
	{"staging.patience", "5m", "How long a job that is started again waits for a node that has a part of its newest checkpoint and\ndoes not answer. Then it goes on from an older one. 0: for ever.",
		age(func(c *Config) *duration { return &c.Staging.Patience }, 10*second), false},

	{"devices.kind", "none", "What jobs have as GPUs: none (what they have is theirs, and a job that uses one is not captured), cuda\n(the node's GPUs, held by device servers: needs proxyd-cuda) or soft (software GPUs, as many as Slurm gives the\njob GPUs: for trying and testing, without hardware).",
		choice(func(c *Config) *string { return &c.Devices.Kind }, "none", "soft", "cuda"), false},
	{"devices.memory", "4G", "Memory of each software GPU, from 2M to 1T.",
		bytesIn(func(c *Config) *uint64 { return &c.Devices.Memory }, 2<<20, 1<<40, "a size from 2M to 1T"), false},
	{"devices.address", "", "Address of this node at which device servers of other nodes reach it, for collectives. Empty: the one that\nSlurm knows of it.",
		text(func(c *Config) *string { return &c.Devices.Address }, address, "an address of this node, as in 10.0.0.7"), false},

	{"network.range", "100.64.0.0/10", "Virtual addresses of capsules. Must not be used by anything else that jobs talk to.",
		prefix(func(c *Config) *netPrefix { return &c.Network.Range }), false},
	{"network.mode", "auto", "How nodes reach each other's capsules: route (neighbours), vxlan, or auto (what each pair needs).",
		choice(func(c *Config) *string { return &c.Network.Mode }, "auto", "route", "vxlan"), false},
	{"network.device", "", "Network device towards the other nodes. Empty: that of the route to each.",
		text(func(c *Config) *string { return &c.Network.Device }, deviceName, "a network device"), false},

	{"scontrol", "scontrol", "Slurm's scontrol.",
		program(func(c *Config) *string { return &c.Scontrol }), false},
	{"srun", "srun", "The real srun.",
		program(func(c *Config) *string { return &c.Srun }), false},
	{"munge_socket", "", "Socket of munged. Empty: munge's own default.",
		path(func(c *Config) *string { return &c.MungeSocket }), false},
	{"metrics.address", "", "Where Prometheus finds /metrics, to anybody who asks: [ADDRESS]:PORT. Empty: nowhere.",
		text(func(c *Config) *string { return &c.Metrics.Address }, hostPort, "[ADDRESS]:PORT"), false},
	{"log.level", "info", "debug, info, warn or error.",
		level(), false},
	{"log.format", "text", "text (key=value) or json, one object a line.",
		format, false},
}

// Environment returns the variable that overrides a key.
func environment(name string) string { return "SINGULARITY_SLURM_" + upper(name) }

// invalid is what every bad value gives: what was wrong, and what is accepted.
func invalid(name, value, want string) error {
	return fmt.Errorf("%s: %.100q: want %s", name, value, want)
}
