// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseListen: ports for clients outside imply the relay, and contradict the other two.
func TestParseListen(t *testing.T) {
	for _, k := range []struct{ listen, outside, want string }{
		{"8888", "", "[8888] relay"},
		{"8888,6006", "relay", "[8888 6006] relay"},
		{"", "", "[] "},
		{"8888", "reset", "--singularity-listen: clients come by way of the site's relay"},
		{"8888", "refuse", "--singularity-listen: clients come by way of the site's relay"},
		{"80", "", "want up to 16 ports"},
		{"70000", "", "want up to 16 ports"},
		{"8888,", "", "want up to 16 ports"},
		{"8888" + strings.Repeat(",8888", 16), "", "want up to 16 ports"},
	} {
		o, err := ParseOptions(map[string]string{"listen": k.listen, "outside": k.outside})
		got := fmt.Sprint(o.Listen, " ", o.Outside)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, k.want) {
			t.Errorf("listen=%s outside=%s: %s, want %s", k.listen, k.outside, got, k.want)
		}
	}
}
