// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Slurm has the settings of Slurm's configuration that concern us.
type Slurm struct {
	Version     string
	Cluster     string
	User        string // SlurmUser
	UID         uint32 // of User
	KillWait    time.Duration
	Proctrack   string // "proctrack/cgroup"
	JobRequeue  bool
	RequeueExit string // "123", "(null)"
	SpoolDir    string // of slurmd on this node, with %n and %h replaced
	Plugstack   string // path of plugstack.conf
	MPIDefault  string // MpiDefault: "none", "pmi2"
	PluginDir   string // folders, separated by colons, of plugins that are named without a path
}

// ErrNoScontrol is returned by ReadSlurm if scontrol cannot be started.
var ErrNoScontrol = errors.New("scontrol is not where proxyd looks (PATH, or scontrol in proxyd.yaml)")

// ReadSlurm asks slurmctld for its configuration, through scontrol. node is this node's name. The error wraps
// ErrNoScontrol if there is no such program.
func ReadSlurm(ctx context.Context, scontrol, node string) (*Slurm, error) {
	out, err := runProgram(ctx, scontrol, "show", "config")
	if err != nil && !isThere(err) {
		return nil, fmt.Errorf("%w: %w", ErrNoScontrol, err)
	}
	if err != nil {
		return nil, err
	}
	return parseSlurm(out, node)
}

var userSyntax = regexp.MustCompile(`^([^()]+)\(([0-9]+)\)$`)

// parseSlurm reads "Key = value" lines.
func parseSlurm(out, node string) (*Slurm, error) {
	values := make(map[string]string)
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && values[key] == "" {
			values[key] = strings.TrimSpace(value)
		}
	}
	for _, key := range []string{"SLURM_VERSION", "ClusterName", "KillWait", "ProctrackType", "SlurmUser", "SLURM_CONF"} {
		if values[key] == "" {
			return nil, fmt.Errorf("scontrol show config: no %s", key)
		}
	}
	user := userSyntax.FindStringSubmatch(values["SlurmUser"])
	if user == nil {
		return nil, fmt.Errorf("scontrol show config: SlurmUser %.80q", values["SlurmUser"])
	}
	uid, err := strconv.ParseUint(user[2], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("scontrol show config: SlurmUser %.80q", values["SlurmUser"])
	}
	number, _, _ := strings.Cut(values["KillWait"], " ") // "30 sec"
	killWait, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("scontrol show config: KillWait %.80q", values["KillWait"])
	}
	s := &Slurm{
		Version: values["SLURM_VERSION"], Cluster: values["ClusterName"], User: user[1], UID: uint32(uid),
		KillWait: time.Duration(killWait) * time.Second, Proctrack: values["ProctrackType"],
		JobRequeue: values["JobRequeue"] == "1", RequeueExit: values["RequeueExit"],
		SpoolDir:  strings.NewReplacer("%n", node, "%h", node).Replace(values["SlurmdSpoolDir"]),
		Plugstack: values["PlugStackConfig"], PluginDir: values["PluginDir"], MPIDefault: values["MpiDefault"],
	}
	if !filepath.IsAbs(s.Plugstack) { // "(null)" in some releases where this is the default
		s.Plugstack = filepath.Join(filepath.Dir(values["SLURM_CONF"]), "plugstack.conf")
	}
	return s, nil
}
