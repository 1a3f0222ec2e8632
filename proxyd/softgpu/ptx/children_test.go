// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"strings"
	"testing"
)

// TestStrangeDriverCalls: a text may declare the driver's functions with other parameters than the device runtime does.
// Then a call has no effect, or ends in a fault of the thread.
func TestStrangeDriverCalls(t *testing.T) {
	for name := range driverCalls {
		for _, c := range []struct{ parameters, body string }{
			{"()", "call F, ();"},
			{"(.param .b32 a)", "{ .param .b32 a; st.param.b32 [a], -1; call F, (a); }"},
			{"(.param .b64 a, .param .b64 b, .param .b64 c, .param .b64 d, .param .b64 e, .param .b64 f)",
				"{ .param .b64 a; st.param.b64 [a], -1; call F, (a, a, a, a, a, a); }"},
			{"(.param .align 8 .b8 a[64], .param .align 8 .b8 b[12])", "{ .param .align 8 .b8 a[64]; .param .align 8 .b8 b[12]; call F, (a, b); }"},
			{"(.param .align 1 .b8 a[2])", "{ .param .align 1 .b8 a[2]; call F, (a); }"},
		} {
			text := header + ".extern .func F " + c.parameters + ";\n.entry k() { " + c.body + " ret; }"
			text = strings.ReplaceAll(text, "F", driverCall+name)
			for _, most := range []int{0, 100} {
				m := bootMachine(t, text)
				m.cfg.MostChildren = most
				m.cfg.Hooks.LaunchKernel = func(Child) LaunchCode { return LaunchTooDeep }
				err := m.launchKernel("k", Dim3{2, 1, 1}, Dim3{3, 1, 1})
				var fault *Fault
				if err != nil && (!errors.As(err, &fault) || fault.Kind != IllegalAddress) {
					t.Errorf("%s%s: %v", name, c.parameters, err)
				}
			}
		}
	}
}
