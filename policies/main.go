// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Program sing-policies is all policies that come with preemptd. Started by the link sing-policy-NAME, the program is
// the policy NAME: preemptd starts each policy by such a path, be the file a link to this program or a site's own
// program. Each policy is a process, which does not know of the other policies.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/defrag"
	"github.com/singularity-slurm/singularity-slurm/policies/drain"
	"github.com/singularity-slurm/singularity-slurm/policies/elastic"
	"github.com/singularity-slurm/singularity-slurm/policies/power"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/starlark"
	"github.com/singularity-slurm/singularity-slurm/policies/tiers"
)

// version is that of all policies here; the linker sets version.
var version = "0.1.0-dev"

// listPolicies returns the policies of this program, each new, with its default settings.
func listPolicies() []sdk.Policy {
	return []sdk.Policy{defrag.New(), drain.New(), elastic.New(), power.New(), starlark.New(), tiers.New()}
}

// versionedPolicy is a policy of this program, with the program's version.
type versionedPolicy struct{ sdk.Policy }

// Describe implements sdk.Policy.
func (r versionedPolicy) Describe() sdk.Description {
	d := r.Policy.Describe()
	d.Version = version
	return d
}

// findPolicy returns the policy that is started by the path of a link.
func findPolicy(link string) (sdk.Policy, error) {
	started := filepath.Base(link)
	var names []string
	for _, p := range listPolicies() {
		name := sdk.ProgramPrefix + p.Describe().Name
		if name == started {
			return versionedPolicy{p}, nil
		}
		names = append(names, name)
	}
	return nil, fmt.Errorf("%s: this program has no policy of that name; it has %s", started, joinNames(names))
}

// joinNames writes at least two names as people list them.
func joinNames(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// helpText describes this program and its policies.
func helpText() string {
	var b strings.Builder
	b.WriteString("The policies that come with preemptd, in one program. Links to it are policies by their names:\n\n")
	for _, p := range listPolicies() {
		d := p.Describe()
		fmt.Fprintf(&b, "  %-22s%s\n", sdk.ProgramPrefix+d.Name, d.Summary)
	}
	b.WriteString(`
preemptd starts those that its configuration names: policies: [elastic, tiers]. There is nothing to
start by hand: singctl policy list shows which run, and singctl policy test tries policies.
A site's own policy is a program of its own, sing-policy-NAME in the folder policy.folder.
`)
	return b.String()
}

func main() {
	if slices.Contains(os.Args[1:], "--help") {
		fmt.Fprint(os.Stdout, helpText())
		return
	}
	policy, err := findPolicy(os.Args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // a single line: preemptd shows the last
		os.Exit(2)
	}
	sdk.Serve(policy)
}
