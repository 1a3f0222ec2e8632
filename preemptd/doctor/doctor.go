// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor finds faults that keep preemptd from doing its work, and tells an administrator what to do about
// them. The package asks Slurm's own commands and the functions that preemptd's main provides, and makes no changes.
package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// Controller is the controller that is examined. Every function may be called at any time; all must be set.
type Controller struct {
	Slurmrestd string                                                                            // its address
	Token      func() (user, token string, err error)                                            // "": no token
	Ping       func(context.Context) error                                                       // asks slurmrestd
	Run        func(ctx context.Context, program string, args ...string) (out string, err error) // runs a command of Slurm's
	Scontrol   string                                                                            // path; "": not there
	Sacctmgr   string                                                                            // likewise
	LeaseQOS   string                                                                            // of jobs that lend GPUs; "": that of the job that they lend to
	Journal    func(context.Context) error
	Policies   func() []*rpc.Policy
	Nodes      func(context.Context) ([]string, error) // that are up
	// Knock asks a node's proxyd; problem is a fault of the node, though its proxyd answers.
	Knock func(ctx context.Context, node string) (problem string, err error)
}

// checks are carried out side by side; doctor prints them in this order.
var checks = []func(*Controller, context.Context) *rpc.Finding{
	(*Controller).checkSlurmrestd,
	(*Controller).checkRights,
	(*Controller).checkPreemptType,
	(*Controller).checkDatabase,
	(*Controller).checkLeases,
	(*Controller).checkJournal,
	(*Controller).checkPolicies,
	(*Controller).checkNodes,
}

// Examine looks at everything.
func (c *Controller) Examine(ctx context.Context) []*rpc.Finding {
	findings := make([]*rpc.Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { findings[i] = check(c, ctx) })
	}
	all.Wait()
	return findings
}

func setOK(f *rpc.Finding, found string) *rpc.Finding {
	f.Level, f.Found = rpc.Finding_OK, found
	return f
}

func setProblem(f *rpc.Finding, level rpc.Finding_Level, found, do string) *rpc.Finding {
	f.Level, f.Found, f.Do = level, found, do
	return f
}

func (c *Controller) checkSlurmrestd(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "slurmrestd", Needs: "slurmrestd at " + c.Slurmrestd + ", and slurmctld behind it"}
	if err := c.Ping(ctx); err != nil {
		return setProblem(f, rpc.Finding_FAIL, err.Error(), "start slurmrestd, or name where it listens in preemptd.yaml: slurmrestd")
	}
	return setOK(f, "answers at "+c.Slurmrestd)
}

// errRights is wrapped by Rights.
var errRights = errors.New("may not operate on other users' jobs, so Slurm refuses each action")

// Rights returns an error if the user that Slurm takes for the sender of preemptd's requests may not operate on all
// users' jobs. A fact that cannot be found out is no error.
func (c *Controller) Rights(ctx context.Context) error {
	_, err := c.actorRights(ctx)
	return err
}

// actorRights returns the user that Slurm takes for the sender of preemptd's requests, and the rights of that user;
// "": not known.
func (c *Controller) actorRights(ctx context.Context) (is string, err error) {
	actor, err := c.slurmrestdUser()
	if err != nil || actor == "" {
		return "", nil //nolint:nilerr // slurmrestd is away, which another check says
	}
	if actor == "root" {
		return "root", nil
	}
	config, err := c.slurmConfig(ctx)
	if err != nil {
		return "", nil //nolint:nilerr // slurmctld is away
	}
	if name, _, _ := strings.Cut(config["SlurmUser"], "("); name == actor {
		return actor + ", SlurmUser", nil
	}
	if c.Sacctmgr == "" {
		return "", nil
	}
	out, err := c.Run(ctx, c.Sacctmgr, "--noheader", "--parsable2", "show", "user", "name="+actor, "format=AdminLevel")
	if err != nil {
		return "", nil //nolint:nilerr // slurmdbd is away, which another check says
	}
	switch level := strings.TrimSpace(out); level {
	case "Operator", "Administrator":
		return actor + ", " + level, nil
	}
	return "", fmt.Errorf("user %s, as whom slurmrestd acts, %w", actor, errRights)
}

// slurmrestdUser returns the user of the token, or of the process behind slurmrestd's socket; "": not known.
func (c *Controller) slurmrestdUser() (string, error) {
	name, token, err := c.Token()
	if err != nil {
		return "", err
	}
	if token != "" {
		if name == "" {
			name = tokenUser(token)
		}
		return name, nil
	}
	address, err := url.Parse(c.Slurmrestd)
	if err != nil || address.Scheme != "unix" {
		return "", err
	}
	conn, err := net.Dial("unix", address.Path)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "", err
	}
	var cred *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || asked != nil {
		return "", errors.Join(err, asked)
	}
	if u, err := user.LookupId(strconv.Itoa(int(cred.Uid))); err == nil {
		return u.Username, nil
	}
	return strconv.Itoa(int(cred.Uid)), nil
}

// tokenUser reads the user from a JWT of Slurm; "": not there. Slurm checks the token, not we.
func tokenUser(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var said struct {
		User string `json:"sun"`
	}
	if json.Unmarshal(claims, &said) != nil {
		return ""
	}
	return said.User
}

func (c *Controller) checkRights(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "slurm: rights", Needs: "a Slurm operator, as whom slurmrestd acts"}
	is, err := c.actorRights(ctx)
	switch {
	case err != nil:
		actor, _ := c.slurmrestdUser() //nolint:errcheck // Rights found out the actor a moment ago
		return setProblem(f, rpc.Finding_FAIL, err.Error(), "sacctmgr add user "+actor+" account=root; sacctmgr modify user "+actor+" set adminlevel=Operator")
	case is == "":
		return setOK(f, "not known")
	}
	return setOK(f, is)
}

// slurmConfig returns slurmctld's configuration.
func (c *Controller) slurmConfig(ctx context.Context) (map[string]string, error) {
	if c.Scontrol == "" {
		return nil, errors.New("preemptd.yaml names no scontrol")
	}
	out, err := c.Run(ctx, c.Scontrol, "show", "config")
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(line, "="); ok && values[strings.TrimSpace(key)] == "" {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return values, nil
}

func (c *Controller) checkPreemptType(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "slurm: preemption", Needs: "PreemptType=preempt/none, if policies preempt"}
	config, err := c.slurmConfig(ctx)
	if err != nil {
		return setOK(f, "not known: "+err.Error())
	}
	switch kind := config["PreemptType"]; {
	case kind == "" || kind == "preempt/none" || kind == unsetValue:
		return setOK(f, "Slurm's own is off (PreemptType=preempt/none, or none in slurm.conf)")
	case len(c.Policies()) > 0:
		return setProblem(f, rpc.Finding_WARN, "Slurm's own is on (PreemptType="+kind+"): Slurm preempts first, and whole jobs", "set PreemptType=preempt/none and PreemptMode=OFF in slurm.conf and restart slurmctld")
	default:
		return setOK(f, "Slurm's own is on (PreemptType="+kind+"), and preemptd has no policy that preempts")
	}
}

// unsetValue is how scontrol shows a key that slurm.conf does not have.
const unsetValue = "(null)"

func (c *Controller) checkDatabase(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "slurm: database", Needs: "sacctmgr and slurmdbd, which know operators and QOS"}
	if c.Sacctmgr == "" {
		return setOK(f, "not asked: preemptd.yaml names no sacctmgr")
	}
	out, err := c.Run(ctx, c.Sacctmgr, "--noheader", "--parsable2", "show", "cluster", "format=Cluster")
	if err != nil {
		return setProblem(f, rpc.Finding_WARN, err.Error(), "start slurmdbd: until then nobody but root and SlurmUser is operator")
	}
	clusters := strings.Fields(out)
	if len(clusters) == 0 {
		return setProblem(f, rpc.Finding_WARN, "slurmdbd answers, and knows no cluster", "sacctmgr add cluster NAME, with the ClusterName of slurm.conf, and restart slurmctld: until then nobody but root and SlurmUser is operator")
	}
	return setOK(f, "answers for "+strings.Join(clusters, ", "))
}

// checkLeases looks whether jobs that lend GPUs can be submitted.
func (c *Controller) checkLeases(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "slurm: leases", Needs: "lease_qos of preemptd.yaml, if set, is a QOS of Slurm's"}
	switch {
	case c.LeaseQOS == "":
		return setOK(f, "they have the QOS of the job that they lend to")
	case c.Sacctmgr == "":
		return setOK(f, "lease_qos "+c.LeaseQOS+": not known, for preemptd.yaml names no sacctmgr")
	}
	out, err := c.Run(ctx, c.Sacctmgr, "--noheader", "--parsable2", "show", "qos", "name="+c.LeaseQOS, "format=Name")
	switch {
	case err != nil:
		return setOK(f, "lease_qos "+c.LeaseQOS+": not known: "+err.Error())
	case strings.TrimSpace(out) == "":
		return setProblem(f, rpc.Finding_WARN, "Slurm has no QOS "+c.LeaseQOS+": jobs that grow are requeued, for no job can lend them GPUs",
			"sacctmgr add qos "+c.LeaseQOS+", and give it to the users' associations; or set lease_qos of preemptd.yaml to another")
	}
	return setOK(f, "lease_qos "+c.LeaseQOS)
}

func (c *Controller) checkJournal(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "journal", Needs: "a file on a disk of this machine"}
	if err := c.Journal(ctx); err != nil {
		return setProblem(f, rpc.Finding_FAIL, err.Error(), "give the disk space, or name another file in preemptd.yaml: journal")
	}
	return setOK(f, "can be written")
}

func (c *Controller) checkPolicies(context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "policies", Needs: "programs that run, and settings that they accept"}
	var names, problems []string
	for _, p := range c.Policies() {
		names = append(names, p.GetName())
		if p.GetProblem() != "" {
			problems = append(problems, p.GetName()+": "+p.GetProblem())
		}
	}
	switch {
	case problems != nil:
		return setProblem(f, rpc.Finding_FAIL, strings.Join(problems, "; "), "singctl policy list; their settings are in policy.settings of preemptd.yaml")
	case names == nil:
		return setOK(f, "none: preemptd does what people ask, and nothing by itself")
	}
	return setOK(f, strings.Join(names, ", "))
}

// atOnce is how many nodes are asked at a time.
const atOnce = 32

func (c *Controller) checkNodes(ctx context.Context) *rpc.Finding {
	f := &rpc.Finding{Name: "nodes", Needs: "a proxyd that answers, and the shared folder, on each node that is up"}
	names, err := c.Nodes(ctx)
	if err != nil {
		return setProblem(f, rpc.Finding_FAIL, err.Error(), "see slurmrestd")
	}
	var mu sync.Mutex
	var silent, unsound []string
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, name := range names {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			problem, err := c.Knock(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				silent = append(silent, name)
			case problem != "":
				unsound = append(unsound, name+": "+problem)
			}
		})
	}
	all.Wait()
	slices.Sort(silent)
	slices.Sort(unsound)
	switch {
	case len(silent) > 0 && len(silent) == len(names):
		return setProblem(f, rpc.Finding_FAIL, "no proxyd answers on any of "+strconv.Itoa(len(names))+" nodes", "on the nodes: systemctl status proxyd; proxyd_port of preemptd.yaml must be the port of listen in proxyd.yaml")
	case len(silent)+len(unsound) > 0:
		var found []string
		if len(silent) > 0 {
			found = append(found, fmt.Sprintf("%d of %d proxyds do not answer: %s", len(silent), len(names), shortenList(silent)))
		}
		if len(unsound) > 0 {
			found = append(found, shortenList(unsound))
		}
		return setProblem(f, rpc.Finding_WARN, strings.Join(found, "; "), "on these nodes: systemctl status proxyd; singctl doctor --node NODE")
	}
	return setOK(f, fmt.Sprintf("%d proxyds answer", len(names)))
}

// shortenList lists ten names, and counts the rest.
func shortenList(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
