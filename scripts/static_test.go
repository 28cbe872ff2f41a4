package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/shardlimit/shardlimit/scripts"
)

// TestScriptsKeepTheirContract reads each script as Lua does and holds it to
// what no run can show: no path at all breaks these rules.
func TestScriptsKeepTheirContract(t *testing.T) {
	for _, s := range scripts.All() {
		for _, fault := range check(s.Text) {
			t.Errorf("%s.lua: %s", s.Name, fault)
		}
	}
}

func TestContractRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no shebang", "return 1", "does not begin with #!lua"},
		{"key built in the script", "#!lua\nreturn redis.call('GET', KEYS[1] .. ':x')", "is not KEYS[1]"},
		{"key from an argument", "#!lua\nreturn redis.call('GET', ARGV[1])", "is not KEYS[1]"},
		{"key behind a variable", "#!lua\nlocal k = KEYS[1]\nreturn redis.call('GET', k)", "is not KEYS[1]"},
		{"computed index", "#!lua\nlocal i = 1\nreturn redis.call('GET', KEYS[i])", "is not KEYS[1]"},
		{"a second key", "#!lua\nreturn redis.call('GET', KEYS[2])", "is not KEYS[1]"},
		{"no key", "#!lua\nreturn redis.call('GET')", "is not KEYS[1]"},
		{"command in a variable", "#!lua\nlocal c = 'GET'\nreturn redis.call(c, KEYS[1])", "is no literal"},
		{"call under another name", "#!lua\nlocal call = redis.call\nreturn call('GET', KEYS[1])", "redis is used for more than redis.call"},
		{"pcall", "#!lua\nreturn redis.pcall('GET', KEYS[1])", "redis is used for more than redis.call"},
		{"write on every path", "#!lua\nlocal n = 0\nredis.call('SET', KEYS[1], n, 'PX', 1)\nreturn n", "SET where nothing may be granted"},
		{"write on the denied path", "#!lua\nlocal n = 0\nif n > 0 then return n else redis.call('SET', KEYS[1], n, 'PX', 1) end", "SET where nothing may be granted"},
		{"write under another guard", "#!lua\nlocal n = 0\nif n > 0 or n < 1 then redis.call('SET', KEYS[1], n, 'PX', 1) end", "SET where nothing may be granted"},
		{"write of what was offered by a script that doesn't lend", "#!lua\nlocal n, late, settled, offered = 0\nif n > 0 or late or settled or offered > 0 then redis.call('SET', KEYS[1], n, 'PX', 1) end", "SET where nothing may be granted"},
		{"write by a script of no-writes", "#!lua flags=no-writes\nlocal n = 1\nif n > 0 then redis.call('SET', KEYS[1], n, 'PX', 1) end", "SET in a script of no-writes"},
		{"SET without a TTL", "#!lua\nlocal n = 1\nif n > 0 then redis.call('SET', KEYS[1], n) end", "SET leaves a key without a TTL"},
		{"ZADD without a TTL", "#!lua\nlocal n = 1\nif n > 0 then redis.call('ZADD', KEYS[1], 1, 'a') end", "ZADD leaves a key without a TTL"},
		{"a TTL for some paths only", "#!lua\nlocal n, late = 1, true\nif n > 0 or late then redis.call('ZADD', KEYS[1], 1, 'a') end\nif n > 0 then redis.call('PEXPIRE', KEYS[1], 1) end", "ZADD leaves a key without a TTL"},
		{"a TTL before the key", "#!lua\nlocal n = 1\nif n > 0 then redis.call('PEXPIRE', KEYS[1], 1) end\nif n > 0 then redis.call('ZADD', KEYS[1], 1, 'a') end", "ZADD leaves a key without a TTL"},
		{"unknown command", "#!lua\nreturn redis.call('HGETALL', KEYS[1])", "HGETALL: unknown command"},
		{"global", "#!lua\nnow = 1\nreturn now", "now is a global"},
		{"tostring", "#!lua\nreturn tostring(1)", "tostring rounds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if faults := check(tt.text); !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, tt.want) }) {
				t.Errorf("faults %q, want one that says %q", faults, tt.want)
			}
		})
	}
}

// What a command does to its key.
const (
	reads = iota
	creates
	changes // a key that is there already
	expires
)

var commands = map[string]int{
	"TIME": reads, "GET": reads, "ZCOUNT": reads, "ZCARD": reads, "ZRANGE": reads, "ZRANGEBYSCORE": reads,
	"SET": creates, "ZADD": creates,
	"DEL": changes, "ZREM": changes, "ZREMRANGEBYRANK": changes,
	"PEXPIRE": expires,
}

// gives marks the scripts that exist to write: they decide nothing, so no path
// of theirs is a denied one.
const gives = "-- give"

// check returns what is wrong with a script.
func check(text string) []string {
	first, body, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "#!lua") {
		return []string{"does not begin with #!lua"}
	}
	chunk, err := parse.Parse(strings.NewReader("\n"+body), "script")
	if err != nil {
		return []string{err.Error()}
	}
	c := &checker{readOnly: strings.Contains(first, "no-writes"), gives: strings.HasPrefix(body, gives), lends: strings.HasPrefix(body, lends), locals: map[string]bool{}}
	c.stmts(chunk, nil)
	for _, key := range c.unexpiring {
		c.fault("%s leaves a key without a TTL", key.command)
	}
	return c.faults
}

// lends marks the script that also keeps what those who ask for leases were
// offered.
const lends = "-- lease"

// checker walks a script in the order in which its lines would run.
type checker struct {
	readOnly, gives, lends bool
	locals                 map[string]bool
	unexpiring             []write // keys created so far that have no TTL yet
	faults                 []string
}

// write is a command that creates a key, and the conditions that led to it.
type write struct {
	command string
	guards  []string
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *checker) stmts(stmts []ast.Stmt, guards []string) {
	for _, s := range stmts {
		c.stmt(s, guards)
	}
}

func (c *checker) stmt(s ast.Stmt, guards []string) {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		for _, name := range s.Names {
			c.locals[name] = true
		}
		c.exprs(s.Exprs, guards)
	case *ast.AssignStmt:
		for _, left := range s.Lhs {
			if name, ok := left.(*ast.IdentExpr); ok && !c.locals[name.Value] {
				c.fault("%s is a global", name.Value)
			}
			c.expr(left, guards)
		}
		c.exprs(s.Rhs, guards)
	case *ast.FuncCallStmt:
		c.expr(s.Expr, guards)
	case *ast.IfStmt:
		c.expr(s.Condition, guards)
		c.stmts(s.Then, append(slices.Clone(guards), condition(s.Condition)))
		c.stmts(s.Else, guards)
	case *ast.WhileStmt:
		c.expr(s.Condition, guards)
		c.stmts(s.Stmts, guards)
	case *ast.NumberForStmt:
		c.locals[s.Name] = true
		c.exprs([]ast.Expr{s.Init, s.Limit, s.Step}, guards)
		c.stmts(s.Stmts, guards)
	case *ast.ReturnStmt:
		c.exprs(s.Exprs, guards)
	default:
		c.fault("line %d: %T: not used here", s.Line(), s)
	}
}

func (c *checker) exprs(exprs []ast.Expr, guards []string) {
	for _, e := range exprs {
		if e != nil {
			c.expr(e, guards)
		}
	}
}

func (c *checker) expr(e ast.Expr, guards []string) {
	switch e := e.(type) {
	case *ast.IdentExpr:
		c.ident(e)
	case *ast.FuncCallExpr:
		if attr, ok := e.Func.(*ast.AttrGetExpr); ok && name(attr.Object) == "redis" && text(attr.Key) == "call" {
			c.redisCall(e.Args, guards)
			return
		}
		if e.Func != nil {
			c.expr(e.Func, guards)
		} else {
			c.expr(e.Receiver, guards)
		}
		c.exprs(e.Args, guards)
	case *ast.AttrGetExpr:
		c.exprs([]ast.Expr{e.Object, e.Key}, guards)
	case *ast.LogicalOpExpr:
		c.exprs([]ast.Expr{e.Lhs, e.Rhs}, guards)
	case *ast.RelationalOpExpr:
		c.exprs([]ast.Expr{e.Lhs, e.Rhs}, guards)
	case *ast.ArithmeticOpExpr:
		c.exprs([]ast.Expr{e.Lhs, e.Rhs}, guards)
	case *ast.StringConcatOpExpr:
		c.exprs([]ast.Expr{e.Lhs, e.Rhs}, guards)
	case *ast.UnaryMinusOpExpr:
		c.expr(e.Expr, guards)
	case *ast.UnaryNotOpExpr:
		c.expr(e.Expr, guards)
	case *ast.UnaryLenOpExpr:
		c.expr(e.Expr, guards)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			c.exprs([]ast.Expr{f.Key, f.Value}, guards)
		}
	case *ast.FunctionExpr:
		for _, name := range e.ParList.Names {
			c.locals[name] = true
		}
		c.stmts(e.Stmts, guards)
	}
}

func (c *checker) ident(e *ast.IdentExpr) {
	switch e.Value {
	case "redis":
		c.fault("redis is used for more than redis.call")
	case "tostring":
		c.fault("tostring rounds to 14 digits")
	}
}

// redisCall checks one redis.call: its command, its key, and what it writes.
func (c *checker) redisCall(args []ast.Expr, guards []string) {
	command := ""
	if len(args) > 0 {
		command = text(args[0])
	}
	kind, known := commands[command]
	switch {
	case command == "":
		c.fault("a command is no literal")
		return
	case !known:
		c.fault("%s: unknown command", command)
		return
	case command == "TIME":
		return
	case len(args) < 2 || !literalKey(args[1]):
		c.fault("the key of %s is not KEYS[1]", command)
		return
	}
	c.exprs(args[2:], guards)
	if kind == reads {
		return
	}
	if c.readOnly {
		c.fault("%s in a script of no-writes", command)
	}
	if !c.gives && !slices.ContainsFunc(guards, c.granting) {
		c.fault("%s where nothing may be granted", command)
	}
	c.expiry(kind, command, args, guards)
}

// expiry follows which keys have been created and have no TTL yet.
func (c *checker) expiry(kind int, command string, args []ast.Expr, guards []string) {
	switch kind {
	case creates:
		if !slices.ContainsFunc(args, func(e ast.Expr) bool { return text(e) == "PX" }) {
			c.unexpiring = append(c.unexpiring, write{command, guards})
		}
	case expires: // it reaches all keys that were created under its own conditions or narrower ones
		c.unexpiring = slices.DeleteFunc(c.unexpiring, func(w write) bool {
			return implies(w.guards, guards)
		})
	}
}

// implies reports whether each of the conditions wanted holds wherever all of
// guards hold.
func implies(guards, wanted []string) bool {
	for _, want := range wanted {
		if !slices.ContainsFunc(guards, func(g string) bool {
			return g == want || slices.Contains(strings.Split(want, " or "), g)
		}) {
			return false
		}
	}
	return true
}

// granting reports whether a condition holds only where something was granted,
// or where a stored time had to be pulled back; or, of the script that lends,
// where it ended a lease or was told of what was offered.
func (c *checker) granting(guard string) bool {
	if c.lends && guard == "n > 0 or late or settled or offered > 0" {
		return true
	}
	return slices.Contains([]string{"n > 0", "late", "n > 0 or late"}, guard)
}

// condition prints the conditions that the guards of writes are made of.
func condition(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return e.Value
	case *ast.NumberExpr:
		return e.Value
	case *ast.RelationalOpExpr:
		return condition(e.Lhs) + " " + e.Operator + " " + condition(e.Rhs)
	case *ast.LogicalOpExpr:
		return condition(e.Lhs) + " " + e.Operator + " " + condition(e.Rhs)
	default:
		return "?"
	}
}

func name(e ast.Expr) string {
	if ident, ok := e.(*ast.IdentExpr); ok {
		return ident.Value
	}
	return ""
}

func text(e ast.Expr) string {
	if s, ok := e.(*ast.StringExpr); ok {
		return s.Value
	}
	return ""
}

// literalKey reports whether e is KEYS[1], as written.
func literalKey(e ast.Expr) bool {
	attr, ok := e.(*ast.AttrGetExpr)
	if !ok || name(attr.Object) != "KEYS" {
		return false
	}
	number, ok := attr.Key.(*ast.NumberExpr)
	return ok && number.Value == "1"
}
