// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// libexec is the folder of programs that people do not run. make install sets it.
var libexec = "/usr/local/libexec/singularity-slurm"

// keys are all keys, in the order in which Explain prints them.
var keys = table.Table[Config]{Daemon: "preemptd", Variables: "SINGULARITY_SLURM_PREEMPTD_", Keys: []table.Key[Config]{
	{Name: "slurmrestd", Default: "unix:/run/slurmrestd/slurmrestd.sock", Meaning: "Where slurmrestd listens: unix:/PATH, http://HOST:PORT or https://HOST:PORT.",
		Set: wantText(func(c *Config) *string { return &c.Slurmrestd }, isAddress, "unix:/PATH, http://HOST:PORT or https://HOST:PORT"), AtStart: true},
	{Name: "token.user", Meaning: "User of the token. Empty: as the token says.",
		Set: wantText(func(c *Config) *string { return &c.TokenUser }, isName, "a user name"), AtStart: true},
	{Name: "token.file", Meaning: "File with a token (scontrol token), read again for each request. Not needed for a unix socket.",
		Set: wantText(func(c *Config) *string { return &c.TokenFile }, isAbsolute, "an absolute path"), AtStart: true},
	{Name: "scontrol", Default: "/usr/bin/scontrol", Meaning: "Slurm's scontrol, which requeues jobs where slurmrestd cannot (before Slurm 26.05). Empty: none.",
		Set: wantText(func(c *Config) *string { return &c.Scontrol }, isAbsolute, "an absolute path"), AtStart: true},
	{Name: "munge_socket", Meaning: "Socket of munged. Empty: munge's own default.",
		Set: wantText(func(c *Config) *string { return &c.MungeSocket }, isAbsolute, "an absolute path"), AtStart: true},
	{Name: "proxyd_port", Default: "6830", Meaning: "Port on which the nodes' proxyds listen.",
		Set: wantText(func(c *Config) *string { return &c.ProxydPort }, isPort, "a number from 1 to 65535"), AtStart: true},
	{Name: "listen", Default: ":6831", Meaning: "Where people's requests are listened for: HOST:PORT, or :PORT for all addresses. Empty: nowhere.",
		Set: wantText(func(c *Config) *string { return &c.Listen }, hostPort, "HOST:PORT or :PORT"), AtStart: true},
	{Name: "operators", Meaning: "Who besides root, SlurmUser, and Slurm's operators and administrators, may act on everybody's jobs: users, and groups as @name.",
		Set: wantMembers(func(c *Config) *[]string { return &c.Operators }), List: true, AtStart: true},
	{Name: "sacctmgr", Default: "/usr/bin/sacctmgr", Meaning: "Slurm's sacctmgr, which knows who is operator or administrator. Empty: nobody is.",
		Set: wantText(func(c *Config) *string { return &c.Sacctmgr }, isAbsolute, "an absolute path"), AtStart: true},
	{Name: "journal", Default: "/var/lib/singularity-slurm/preemptd.db", Meaning: "The file with the next step of each action of preemptd, written before the step is taken. On a disk of this machine.",
		Set: wantText(func(c *Config) *string { return &c.Journal }, isPath, "an absolute path"), AtStart: true},

	{Name: "interval", Default: "5s", Meaning: "How often the cluster is looked at.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Interval }, time.Second)},
	{Name: "max_actions", Default: "16", Meaning: "How many actions are done at a time; more wait.",
		Set: table.Number(func(c *Config) *int { return &c.MaxActions }, 1, 10000)},
	{Name: "keep_room", Default: "2m", Meaning: "How long nodes are kept for a job, by a reservation in Slurm, after other jobs have left them for its sake. It starts there within seconds, or something else keeps it from starting. 0: not at all.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.KeepRoom }, 0)},
	{Name: "grace", Default: "30s", Meaning: "How long actions under way may go on when preemptd is stopped. Steps that are not done by then are done at the next start.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Grace }, 0), AtStart: true},
	{Name: "retention", Default: "90d", Meaning: "How long actions that have ended are remembered.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Retention }, time.Hour)},

	{Name: "web.address", Default: "127.0.0.1:6832", Meaning: "Where the web page is served: HOST:PORT, or :PORT for all addresses. Whoever reaches it sees all jobs. Empty: nowhere.",
		Set: wantText(func(c *Config) *string { return &c.Web.Address }, hostPort, "HOST:PORT or :PORT"), AtStart: true},
	{Name: "web.hosts", Meaning: "Names that browsers use for this host, besides its own and its addresses. Others are refused over plain HTTP: anybody can give their name this address.",
		Set: wantNames(func(c *Config) *[]string { return &c.Web.Hosts }), List: true, AtStart: true},
	{Name: "web.racks", Default: "/etc/slurm/topology.conf", Meaning: "File in which Slurm has its topology (topology.conf or topology.yaml): its switches and blocks with nodes are the racks of the page. Empty, or not there: no racks.",
		Set: wantText(func(c *Config) *string { return &c.Web.Racks }, isAbsolute, "an absolute path"), AtStart: true},
	{Name: "web.tls_cert", Meaning: "Certificate of the page with its chain, PEM, read again when it changes. Empty: plain HTTP, over which tokens are taken on this machine only.",
		Set: wantText(func(c *Config) *string { return &c.Web.TLSCert }, isAbsolute, "an absolute path"), AtStart: true},
	{Name: "web.tls_key", Meaning: "Its key, PEM.",
		Set: wantText(func(c *Config) *string { return &c.Web.TLSKey }, isAbsolute, "an absolute path"), AtStart: true},

	{Name: "patience.checkpoint", Default: "15m", Meaning: "How long a checkpoint may take before the action is given up.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Patience.Checkpoint }, time.Second), AtStart: true},
	{Name: "patience.leave", Old: "patience.vacate", Default: "10m", Meaning: "How long a requeued job may take to leave its nodes.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Patience.Leave }, time.Second), AtStart: true},
	{Name: "patience.start", Default: "10m", Meaning: "How long a job that was moved or resized may wait to start where it was sent. Then it starts anywhere. And how long singctl migrate and resize wait then until it is restored.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Patience.Start }, time.Second), AtStart: true},

	{Name: "lease_qos", Meaning: "QOS of the jobs that lend GPUs to a running job (sbatch --singularity-lease), which preemptd has submitted as the job's user. A QOS that higher ones preempt makes these jobs give way first. Empty: that of the job that they lend to.",
		Set: wantText(func(c *Config) *string { return &c.LeaseQOS }, isName, "a QOS")},

	{Name: "rules.window", Default: "24h", Meaning: "Time over which GPU fractions are counted.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Rules.Window }, time.Minute)},
	{Name: "rules.min_run", Default: "5m", Meaning: "A job that started more recently is left alone by policies.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Rules.MinRun }, 0)},
	{Name: "rules.cool_down", Default: "10m", Meaning: "A job that was moved, resized or preempted more recently is left alone by policies.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Rules.CoolDown }, 0)},

	{Name: "tiers.premium", Meaning: "QOS whose jobs are premium, beside the QOS of that name.",
		Set: wantNames(func(c *Config) *[]string { return &c.Tiers.Premium }), List: true},
	{Name: "tiers.standard", Meaning: "QOS whose jobs are standard, beside the QOS of that name.",
		Set: wantNames(func(c *Config) *[]string { return &c.Tiers.Standard }), List: true},
	{Name: "tiers.basic", Meaning: "QOS whose jobs are basic, beside all that are in no other tier.",
		Set: wantNames(func(c *Config) *[]string { return &c.Tiers.Basic }), List: true},
	{Name: "promised.premium", Default: "95", Meaning: "GPU fraction that premium jobs are promised, in percent.",
		Set: table.Number(func(c *Config) *int { return &c.Promised.Premium }, 0, 100)},
	{Name: "promised.standard", Default: "70", Meaning: "The same of standard jobs.",
		Set: table.Number(func(c *Config) *int { return &c.Promised.Standard }, 0, 100)},
	{Name: "promised.basic", Default: "0", Meaning: "The same of basic jobs.",
		Set: table.Number(func(c *Config) *int { return &c.Promised.Basic }, 0, 100)},

	{Name: "power.cap", Default: "0", Meaning: "Watts that the GPUs of all nodes may draw together, for the policy power. 0: no cap.",
		Set: table.Number(func(c *Config) *int { return &c.Power.Cap }, 0, 1e9)},
	{Name: "power.busy", Default: "400", Meaning: "Watts that a GPU which a job holds is taken to draw: an estimate, for power is not measured.",
		Set: table.Number(func(c *Config) *int { return &c.Power.Busy }, 0, 1e5)},
	{Name: "power.idle", Default: "60", Meaning: "The same of one that no job holds.",
		Set: table.Number(func(c *Config) *int { return &c.Power.Idle }, 0, 1e5)},

	{Name: "policies", Meaning: "Policies in the order in which they are asked. Empty: preemptd does what people ask, and nothing by itself.",
		Set: wantNames(func(c *Config) *[]string { return &c.Policies }), List: true},
	{Name: "policy.folder", Default: libexec, Meaning: "Where their programs are: sing-policy-NAME.",
		Set: wantText(func(c *Config) *string { return &c.Policy.Folder }, isPath, "an absolute path")},
	{Name: "policy.settings", Default: "/etc/singularity-slurm/policies", Meaning: "Where their settings are: NAME.yaml, if it has any.",
		Set: wantText(func(c *Config) *string { return &c.Policy.Settings }, isPath, "an absolute path")},
	{Name: "policy.timeout", Default: "10s", Meaning: "How long a policy may take to answer.",
		Set: wantAge(func(c *Config) *time.Duration { return &c.Policy.Timeout }, 100*time.Millisecond)},
	{Name: "policy.memory", Default: "1G", Meaning: "How much memory a policy may use. 0: no limit.",
		Set: table.Bytes(func(c *Config) *uint64 { return &c.Policy.Memory })},

	{Name: "metrics.address", Meaning: "Where Prometheus finds /metrics, to anybody who asks: HOST:PORT, or :PORT for all addresses. Empty: nowhere.",
		Set: wantText(func(c *Config) *string { return &c.Metrics.Address }, hostPort, "HOST:PORT or :PORT"), AtStart: true},

	{Name: "log.level", Default: "info", Meaning: "debug, info, warn or error.",
		Set: table.LogLevel(func(c *Config) *table.Log { return &c.Log }), AtStart: true},
	{Name: "log.format", Default: "text", Meaning: "text (key=value) or json, one object a line.",
		Set: table.LogFormat(func(c *Config) *table.Log { return &c.Log }), AtStart: true},
}}

// Keys returns the names of all keys.
func Keys() []string {
	all := make([]string, len(keys.Keys))
	for i, k := range keys.Keys {
		all[i] = k.Name
	}
	return all
}

// Meaning returns the meaning of a key.
func Meaning(name string) string {
	for _, k := range keys.Keys {
		if k.Name == name {
			return k.Meaning
		}
	}
	return ""
}

// Environment returns the variable that overrides a key.
func Environment(name string) string { return keys.Variable(name) }

// Flag returns the flag that overrides a key.
func Flag(name string) string { return table.Flag(name) }
