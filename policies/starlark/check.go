// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// checker finds, before the run, code that would fail in a run: attributes that no value has, texts that an attribute
// never is, arguments that a verb does not take. Where the checker cannot tell the kind of a value, any attribute
// passes that some kind has.
type checker struct {
	kinds map[string]string // of the names that are known here: "job", "(job)" and "[job]" for a tuple and a list of them, "" for anything
	wrong []mistake
}

type mistake struct {
	at   syntax.Position
	text string
}

// checkFile returns all mistakes of a file, each with its line and column.
func checkFile(file *syntax.File) error {
	c := &checker{kinds: map[string]string{}}
	c.checkStatements(file.Stmts)
	slices.SortFunc(c.wrong, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Col, b.at.Col))
	})
	errs := make([]error, 0, len(c.wrong))
	for _, m := range slices.CompactFunc(c.wrong, func(a, b mistake) bool { return a == b }) {
		errs = append(errs, fmt.Errorf("%v: %s", m.at, m.text))
	}
	return errors.Join(errs...)
}

func (c *checker) addProblem(at syntax.Position, format string, args ...any) {
	c.wrong = append(c.wrong, mistake{at, fmt.Sprintf(format, args...)})
}

// inScope runs f where more names are known, and forgets these names afterwards.
func (c *checker) inScope(f func()) {
	outer := c.kinds
	c.kinds = make(map[string]string, len(outer))
	for name, kind := range outer {
		c.kinds[name] = kind
	}
	f()
	c.kinds = outer
}

func (c *checker) checkStatements(all []syntax.Stmt) {
	for _, s := range all {
		if d, ok := s.(*syntax.DefStmt); ok { // a call may be above the definition
			c.bindNames(d.Name, "")
		}
	}
	for _, s := range all {
		c.checkStatement(s)
	}
}

func (c *checker) checkStatement(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.DefStmt:
		c.checkFunction(s)
	case *syntax.AssignStmt:
		kind := c.kindOf(s.RHS)
		if s.Op != syntax.EQ && kind != c.kindOf(s.LHS) {
			kind = ""
		}
		if name, ok := s.LHS.(*syntax.Ident); ok {
			if was, known := c.kinds[name.Name]; known && was != kind {
				kind = "" // both kinds are possible
			}
		}
		c.bindNames(s.LHS, kind)
	case *syntax.ForStmt:
		c.bindNames(s.Vars, elementKind(c.kindOf(s.X)))
		c.checkStatements(s.Body)
	case *syntax.IfStmt:
		c.kindOf(s.Cond)
		c.checkStatements(s.True)
		c.checkStatements(s.False)
	case *syntax.ExprStmt:
		c.kindOf(s.X)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			c.kindOf(s.Result)
		}
	}
}

// checkFunction looks into a function. The kinds of the arguments are known of decide only.
func (c *checker) checkFunction(s *syntax.DefStmt) {
	c.inScope(func() {
		for _, p := range s.Params {
			c.bindNames(parameterName(p), "")
		}
		if s.Name.Name == "decide" && len(s.Params) == 1 {
			c.bindNames(parameterName(s.Params[0]), "cluster")
		}
		c.checkStatements(s.Body)
	})
}

// parameterName returns the name in a parameter of a function.
func parameterName(p syntax.Expr) syntax.Expr {
	switch p := p.(type) {
	case *syntax.BinaryExpr: // name = default
		return p.X
	case *syntax.UnaryExpr: // *args
		return p.X
	}
	return p
}

// bindNames gives names their kind.
func (c *checker) bindNames(to syntax.Expr, kind string) {
	switch to := to.(type) {
	case *syntax.Ident:
		c.kinds[to.Name] = kind
	case *syntax.ParenExpr:
		c.bindNames(to.X, kind)
	case *syntax.TupleExpr:
		for _, x := range to.List {
			c.bindNames(x, "")
		}
	case *syntax.ListExpr:
		for _, x := range to.List {
			c.bindNames(x, "")
		}
	case nil:
	default:
		c.kindOf(to)
	}
}

// elementKind is the kind of an element of a list.
func elementKind(kind string) string {
	if strings.HasPrefix(kind, "[") || strings.HasPrefix(kind, "(") {
		return kind[1 : len(kind)-1]
	}
	return ""
}

// listKind is the kind of a list of them.
func listKind(kind string) string {
	if kind == "job" || kind == "node" {
		return "[" + kind + "]"
	}
	return ""
}

// kindOf looks into an expression, and returns the kind of its value, as far as that is known.
func (c *checker) kindOf(e syntax.Expr) string {
	switch e := e.(type) {
	case *syntax.Ident:
		return c.kinds[e.Name]
	case *syntax.ParenExpr:
		return c.kindOf(e.X)
	case *syntax.DotExpr:
		return c.attributeKind(e)
	case *syntax.CallExpr:
		return c.callKind(e)
	case *syntax.IndexExpr:
		c.kindOf(e.Y)
		return elementKind(c.kindOf(e.X))
	case *syntax.SliceExpr:
		for _, bound := range []syntax.Expr{e.Lo, e.Hi, e.Step} {
			if bound != nil {
				c.kindOf(bound)
			}
		}
		return c.kindOf(e.X)
	case *syntax.BinaryExpr:
		return c.binaryKind(e)
	case *syntax.CondExpr:
		c.kindOf(e.Cond)
		return c.commonKind(e.True, e.False)
	case *syntax.Comprehension:
		return c.comprehensionKind(e)
	case *syntax.LambdaExpr:
		c.checkLambda(e, "")
		return ""
	}
	c.checkChildren(e)
	return ""
}

// commonKind is the kind of two expressions if they have the same, else "".
func (c *checker) commonKind(a, b syntax.Expr) string {
	if one, other := c.kindOf(a), c.kindOf(b); one == other {
		return one
	}
	return ""
}

// checkChildren looks into the parts of an expression of no kind of ours.
func (c *checker) checkChildren(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.ListExpr:
		for _, x := range e.List {
			c.kindOf(x)
		}
	case *syntax.TupleExpr:
		for _, x := range e.List {
			c.kindOf(x)
		}
	case *syntax.DictExpr:
		for _, x := range e.List {
			c.kindOf(x)
		}
	case *syntax.DictEntry:
		c.kindOf(e.Key)
		c.kindOf(e.Value)
	case *syntax.UnaryExpr:
		if e.X != nil {
			c.kindOf(e.X)
		}
	}
}

func (c *checker) checkLambda(e *syntax.LambdaExpr, kind string) {
	c.inScope(func() {
		for _, p := range e.Params {
			c.bindNames(parameterName(p), kind)
		}
		c.kindOf(e.Body)
	})
}

func (c *checker) comprehensionKind(e *syntax.Comprehension) (kind string) {
	c.inScope(func() {
		for _, clause := range e.Clauses {
			switch clause := clause.(type) {
			case *syntax.ForClause:
				c.bindNames(clause.Vars, elementKind(c.kindOf(clause.X)))
			case *syntax.IfClause:
				c.kindOf(clause.Cond)
			}
		}
		kind = listKind(c.kindOf(e.Body))
	})
	if e.Curly {
		return ""
	}
	return kind
}

// callKind checks a call, and returns the kind of its result. Some functions return a value of their argument's kind.
func (c *checker) callKind(e *syntax.CallExpr) string {
	name, _ := e.Fn.(*syntax.Ident)
	if name == nil {
		c.kindOf(e.Fn)
	}
	kind := ""
	for i, arg := range e.Args {
		if named, ok := arg.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
			if l, ok := named.Y.(*syntax.LambdaExpr); ok {
				c.checkLambda(l, elementKind(kind)) // sorted(jobs, key = lambda j: …)
				continue
			}
			c.kindOf(named.Y)
			continue
		}
		if of := c.kindOf(arg); i == 0 {
			kind = of
		}
	}
	if name == nil {
		return ""
	}
	if _, shadowed := c.kinds[name.Name]; shadowed {
		return ""
	}
	if verb, err := sdk.ParseVerb(name.Name); err == nil {
		c.checkVerb(e, verb)
		return "intent"
	}
	switch name.Name {
	case "sorted", "list", "reversed":
		return listKind(elementKind(kind))
	case "min", "max":
		return elementKind(kind)
	}
	return ""
}

// values of the kinds, which know their attributes.
var values = map[string]starlark.HasAttrs{
	"cluster": newCluster(sampleSnapshot()),
	"job":     newJob(sampleSnapshot(), 0),
	"node":    newNode(sampleSnapshot(), 0),
}
