// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"time"
)

// key is one line of preemptd.yaml.
type key struct {
	name  string // dots lead into a section
	value string // the default, as one would write it; may be empty
	what  string // for an administrator
	// set reads a value into its field, or says what is accepted.
	set func(c *Config, value string) error
	// list: the value may be a YAML list; its items are joined by commas.
	list bool
	// fixed: a change takes effect at the next start only.
	fixed bool
}

// libexec is where programs are that people do not run. make install says where that is.
var libexec = "/usr/local/libexec/singularity-slurm"

// keys is all there is to configure, in the order in which it is explained.
var keys = []key{
	{"slurmrestd", "unix:/run/slurmrestd/slurmrestd.sock", "Where slurmrestd listens: unix:/PATH, http://HOST:PORT or https://HOST:PORT.",
		text(func(c *Config) *string { return &c.Slurmrestd }, address, "unix:/PATH, http://HOST:PORT or https://HOST:PORT"), false, true},
	{"token.user", "", "User of the token. Empty: as the token says.",
		text(func(c *Config) *string { return &c.TokenUser }, name, "a user name"), false, true},
	{"token.file", "", "File with a token (scontrol token), read again for each request. Not needed for a unix socket.",
		text(func(c *Config) *string { return &c.TokenFile }, absolute, "an absolute path"), false, true},
	{"scontrol", "/usr/bin/scontrol", "Slurm's scontrol, which requeues jobs where slurmrestd cannot (before Slurm 26.05). Empty: none.",
		text(func(c *Config) *string { return &c.Scontrol }, absolute, "an absolute path"), false, true},
	{"munge_socket", "", "Socket of munged. Empty: munge's own default.",
		text(func(c *Config) *string { return &c.MungeSocket }, absolute, "an absolute path"), false, true},
	{"proxyd_port", "6830", "Port on which the nodes' proxyds listen.",
		text(func(c *Config) *string { return &c.ProxydPort }, port, "a number from 1 to 65535"), false, true},
	{"listen", ":6831", "Where people's requests are listened for: HOST:PORT, or :PORT for all addresses. Empty: nowhere.",
		text(func(c *Config) *string { return &c.Listen }, hostPort, "HOST:PORT or :PORT"), false, true},
	{"operators", "", "Who besides root, SlurmUser, and Slurm's operators and administrators, may act on everybody's jobs: users, and groups as @name.",
		members(func(c *Config) *[]string { return &c.Operators }), true, true},
	{"sacctmgr", "/usr/bin/sacctmgr", "Slurm's sacctmgr, which knows who is operator or administrator. Empty: nobody is.",
		text(func(c *Config) *string { return &c.Sacctmgr }, absolute, "an absolute path"), false, true},
	{"journal", "/var/lib/singularity-slurm/preemptd.db", "What preemptd does next, written before it is done. On a disk of this machine.",
		text(func(c *Config) *string { return &c.Journal }, path, "an absolute path"), false, true},

	{"interval", "5s", "How often the cluster is looked at.",
		age(func(c *Config) *time.Duration { return &c.Interval }, time.Second), false, false},
	{"max_actions", "16", "How many actions are done at a time; more wait.",
		number(func(c *Config) *int { return &c.MaxActions }, 1, 10000), false, false},
	{"grace", "30s", "How long actions under way may go on when preemptd is stopped. What is not done by then is done at the next start.",
		age(func(c *Config) *time.Duration { return &c.Grace }, 0), false, true},
	{"retention", "90d", "How long actions that have ended are remembered.",
		age(func(c *Config) *time.Duration { return &c.Retention }, time.Hour), false, false},

	{"web.address", "127.0.0.1:6832", "Where the web page is served: HOST:PORT, or :PORT for all addresses. Whoever reaches it sees all jobs. Empty: nowhere.",
		text(func(c *Config) *string { return &c.Web.Address }, hostPort, "HOST:PORT or :PORT"), false, true},
	{"web.hosts", "", "Names that browsers use for this host, besides its own and its addresses. Others are refused over plain HTTP: anybody can give their name this address.",
		names(func(c *Config) *[]string { return &c.Web.Hosts }), true, true},
	{"web.tls_cert", "", "Certificate of the page with its chain, PEM, read again when it changes. Empty: plain HTTP, over which tokens are taken on this machine only.",
		text(func(c *Config) *string { return &c.Web.TLSCert }, absolute, "an absolute path"), false, true},
	{"web.tls_key", "", "Its key, PEM.",
		text(func(c *Config) *string { return &c.Web.TLSKey }, absolute, "an absolute path"), false, true},

	{"patience.checkpoint", "15m", "How long a checkpoint may take before the action is given up.",
		age(func(c *Config) *time.Duration { return &c.Patience.Checkpoint }, time.Second), false, true},
	{"patience.vacate", "10m", "How long a requeued job may take to leave its nodes.",
		age(func(c *Config) *time.Duration { return &c.Patience.Vacate }, time.Second), false, true},
	{"patience.start", "10m", "How long a job that was moved or resized may wait to start where it was sent. Then it starts anywhere.",
		age(func(c *Config) *time.Duration { return &c.Patience.Start }, time.Second), false, true},

	{"rules.window", "24h", "Time over which GPU fractions are counted.",
		age(func(c *Config) *time.Duration { return &c.Rules.Window }, time.Minute), false, false},
	{"rules.min_run", "5m", "A job that started more recently is left alone by policies.",
		age(func(c *Config) *time.Duration { return &c.Rules.MinRun }, 0), false, false},
	{"rules.cool_down", "10m", "A job that was moved, resized or preempted more recently is left alone by policies.",
		age(func(c *Config) *time.Duration { return &c.Rules.CoolDown }, 0), false, false},

	{"tiers.premium", "", "QOS whose jobs are premium, beside the QOS of that name.",
		names(func(c *Config) *[]string { return &c.Tiers.Premium }), true, false},
	{"tiers.standard", "", "QOS whose jobs are standard, beside the QOS of that name.",
		names(func(c *Config) *[]string { return &c.Tiers.Standard }), true, false},
	{"tiers.basic", "", "QOS whose jobs are basic, beside all that are in no other tier.",
		names(func(c *Config) *[]string { return &c.Tiers.Basic }), true, false},
	{"promised.premium", "95", "GPU fraction that premium jobs are promised, in percent.",
		number(func(c *Config) *int { return &c.Promised.Premium }, 0, 100), false, false},
	{"promised.standard", "70", "The same of standard jobs.",
		number(func(c *Config) *int { return &c.Promised.Standard }, 0, 100), false, false},
	{"promised.basic", "0", "The same of basic jobs.",
		number(func(c *Config) *int { return &c.Promised.Basic }, 0, 100), false, false},

	{"power.cap", "0", "Watts that the GPUs of all nodes may draw together, for the policy power. 0: no cap.",
		number(func(c *Config) *int { return &c.Power.Cap }, 0, 1e9), false, false},
	{"power.busy", "400", "Watts that a GPU which a job holds is taken to draw: an estimate, for power is not measured.",
		number(func(c *Config) *int { return &c.Power.Busy }, 0, 1e5), false, false},
	{"power.idle", "60", "The same of one that no job holds.",
		number(func(c *Config) *int { return &c.Power.Idle }, 0, 1e5), false, false},

	{"policies", "", "Policies in the order in which they are asked. Empty: preemptd does what people ask, and nothing by itself.",
		names(func(c *Config) *[]string { return &c.Policies }), true, false},
	{"policy.folder", libexec, "Where their programs are: sing-policy-NAME.",
		text(func(c *Config) *string { return &c.Policy.Folder }, path, "an absolute path"), false, false},
	{"policy.settings", "/etc/singularity-slurm/policies", "Where their settings are: NAME.yaml, if it has any.",
		text(func(c *Config) *string { return &c.Policy.Settings }, path, "an absolute path"), false, false},
	{"policy.timeout", "10s", "How long a policy may take to answer.",
		age(func(c *Config) *time.Duration { return &c.Policy.Timeout }, 100*time.Millisecond), false, false},
	{"policy.memory", "1G", "How much memory a policy may use. 0: no limit.",
		size(func(c *Config) *uint64 { return &c.Policy.Memory }), false, false},

	{"metrics.address", "", "Where Prometheus finds /metrics, to anybody who asks: HOST:PORT, or :PORT for all addresses. Empty: nowhere.",
		text(func(c *Config) *string { return &c.Metrics.Address }, hostPort, "HOST:PORT or :PORT"), false, true},

	{"log.level", "info", "debug, info, warn or error.", level, false, true},
	{"log.format", "text", "text (key=value) or json, one object a line.", format, false, true},
	{"pause_at", "", "For tests of what is killed then: the process stops (SIGSTOP) when an action has come to this step (park), or has done it and not written so (park!). Empty: never.",
		text(func(c *Config) *string { return &c.PauseAt }, step, "the name of a step, and perhaps !"), false, false},
}

// Keys returns the names of all keys.
func Keys() []string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.name
	}
	return all
}

// What returns what a key means.
func What(name string) string {
	for _, k := range keys {
		if k.name == name {
			return k.what
		}
	}
	return ""
}

// Environment returns the variable that overrides a key.
func Environment(name string) string {
	return "SINGULARITY_SLURM_PREEMPTD_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// Flag returns the flag that overrides a key.
func Flag(name string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(name) }
