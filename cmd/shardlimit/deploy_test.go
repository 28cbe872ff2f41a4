package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
)

const deploy = "../../deploy/"

// examples are the files that show how to run the program.
var examples = []string{
	"docker/Dockerfile", "docker/compose.yml", "kubernetes/service.yaml", "kubernetes/sidecar.yaml", "systemd/shardlimit.service",
	"nginx/shardlimit.conf", "traefik/shardlimit.yml", "caddy/Caddyfile",
}

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	flagOf     = regexp.MustCompile(`(?m)(?:^|[ "])--([a-z-]+)=`)
	variableOf = regexp.MustCompile(`SHARDLIMIT_[A-Z_]+`)
	addressOf  = regexp.MustCompile(`127\.0\.0\.1:80\d\d`)
	routeOf    = regexp.MustCompile(`/(?:v1/\w+|healthz|readyz|metrics)\b`)
)

func TestExamplesOfDeploymentNameWhatThereIs(t *testing.T) {
	flags := map[string]bool{"config": true}
	variables := map[string]bool{"SHARDLIMIT_IMAGE": true, "SHARDLIMIT_PORT": true, passwordOfRedis: true, tokenOfAdmin: true}
	serve := kong.Must(&serveCommand{})
	for _, f := range serve.Model.Flags {
		flags[f.Name] = true
		for _, v := range f.Envs {
			variables[v] = true
		}
	}
	listen := config.Default().Server.Listen
	routes := []string{"/healthz", "/readyz", "/metrics", "/v1/check", "/v1/authorize"}
	for _, name := range examples {
		text := example(t, name)
		for _, m := range flagOf.FindAllStringSubmatch(text, -1) {
			if !flags[m[1]] && name != "docker/Dockerfile" { // whose --interval is Docker's
				t.Errorf("%s: serve has no flag --%s", name, m[1])
			}
		}
		for _, v := range variableOf.FindAllString(text, -1) {
			if !variables[v] {
				t.Errorf("%s: nothing reads %s", name, v)
			}
		}
		for _, a := range addressOf.FindAllString(text, -1) {
			if a != "127.0.0.1"+listen.Public && a != listen.Admin {
				t.Errorf("%s: the daemon listens on %s and %s unless told, not on %s", name, listen.Public, listen.Admin, a)
			}
		}
		for _, r := range routeOf.FindAllString(text, -1) {
			if !slices.Contains(routes, r) {
				t.Errorf("%s: there is no %s", name, r)
			}
		}
	}
}

// What serve reads of the environment by itself.
const (
	passwordOfRedis = "SHARDLIMIT_REDIS_PASSWORD"
	tokenOfAdmin    = "SHARDLIMIT_ADMIN_TOKEN"
)

// object is what the examples say of a Kubernetes object, in so far as tests hold
// it.
type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Selector map[string]any
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		Ports []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
	}
}

type pod struct {
	Grace          int         `yaml:"terminationGracePeriodSeconds"`
	Containers     []container `yaml:"containers"`
	InitContainers []container `yaml:"initContainers"`
	Volumes        []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			Name string `yaml:"secretName"`
		}
	}
	Security struct {
		NonRoot bool `yaml:"runAsNonRoot"`
		User    int  `yaml:"runAsUser"`
	} `yaml:"securityContext"`
}

type container struct {
	Name  string
	Args  []string
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Mounts    []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
	Security struct {
		Escalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	Resources struct{ Requests, Limits map[string]string }
}

type probe struct {
	HTTP struct{ Path, Port string } `yaml:"httpGet"`
	Exec struct{ Command []string }
}

// objects returns those of a file, by kind.
func objects(t *testing.T, name string) map[string]object {
	t.Helper()
	all := map[string]object{}
	d := yaml.NewDecoder(strings.NewReader(example(t, name)))
	for {
		var o object
		switch err := d.Decode(&o); {
		case err == io.EOF: //nolint:errorlint // as Decode returns it
			return all
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		}
		all[o.Kind] = o
	}
}

func TestKubernetesObjectsFitTogether(t *testing.T) {
	all := objects(t, "kubernetes/service.yaml")
	for _, kind := range []string{"ConfigMap", "Secret", "Deployment", "Service", "PodDisruptionBudget"} {
		if o := all[kind]; o.Metadata.Name != "shardlimit" || o.Metadata.Labels["app.kubernetes.io/name"] != "shardlimit" {
			t.Errorf("%s: %+v; want it to be called shardlimit", kind, o.Metadata)
		}
	}
	d := all["Deployment"].Spec
	labels := fmt.Sprint(d.Template.Metadata.Labels)
	for kind, chosen := range map[string]any{
		"Deployment":          d.Selector["matchLabels"],
		"PodDisruptionBudget": all["PodDisruptionBudget"].Spec.Selector["matchLabels"],
		"Service":             all["Service"].Spec.Selector,
	} {
		if fmt.Sprint(chosen) != labels {
			t.Errorf("%s chooses %v, and the pods are labelled %s", kind, chosen, labels)
		}
	}
	c := d.Template.Spec.Containers[0]
	public := config.Default().Server.Listen.Public
	if p := c.Ports[0]; p.Name != "api" || fmt.Sprintf(":%d", p.Port) != public {
		t.Errorf("the container's port is %+v, want api, %s", p, public)
	}
	if c.Liveness.HTTP.Path != "/healthz" || c.Readiness.HTTP.Path != "/readyz" || c.Liveness.HTTP.Port != "api" || c.Readiness.HTTP.Port != "api" {
		t.Errorf("probes %+v and %+v; want /healthz and /readyz at api", c.Liveness, c.Readiness)
	}
	if p := all["Service"].Spec.Ports[0]; p.TargetPort != "api" {
		t.Errorf("the service goes to %q, want api", p.TargetPort)
	}
	holdPod(t, d.Template.Spec, &c)

	beside := objects(t, "kubernetes/sidecar.yaml")["Deployment"].Spec.Template.Spec
	side := beside.InitContainers[0]
	if want := []string{"/shardlimit", "health"}; !slices.Equal(side.Liveness.Exec.Command, want) {
		t.Errorf("the sidecar's probe runs %q, want %q", side.Liveness.Exec.Command, want)
	}
	holdPod(t, beside, &side)
}

// holdPod holds what all pods of the daemon have in common: they have no rights,
// stay within bounds, and mount what the configuration reads.
func holdPod(t *testing.T, p pod, c *container) {
	t.Helper()
	if !p.Security.NonRoot || p.Security.User != 65532 || !c.Security.ReadOnly || c.Security.Escalation == nil || *c.Security.Escalation {
		t.Errorf("%s: %+v, %+v; want no rights", c.Name, p.Security, c.Security)
	}
	if p.Grace < 30 || c.Resources.Limits["memory"] == "" || c.Resources.Requests["cpu"] == "" {
		t.Errorf("%s: %d s to end, %+v; want time and bounds", c.Name, p.Grace, c.Resources)
	}
	if p.Volumes[0].ConfigMap.Name != "shardlimit" || p.Volumes[1].Secret.Name != "shardlimit" {
		t.Errorf("%s: volumes %+v; want the ConfigMap and the Secret", c.Name, p.Volumes)
	}
	if c.Args[0] != "serve" || c.Args[1] != "--config="+c.Mounts[0].MountPath+"/limits.yaml" {
		t.Errorf("%s runs %q with %+v; want the ConfigMap's file", c.Name, c.Args, c.Mounts)
	}
}

func TestConfigurationsOfTheExamplesLoad(t *testing.T) {
	all := objects(t, "kubernetes/service.yaml")
	c, err := config.Parse("limits.yaml", []byte(all["ConfigMap"].Data["limits.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	mount := all["Deployment"].Spec.Template.Spec.Containers[0].Mounts[1].MountPath
	for _, path := range []string{c.Server.AdminTokenFile, c.Server.Redis.PasswordFile} {
		if dir, key := filepath.Split(path); dir != mount+"/" || all["Secret"].StringData[key] == "" {
			t.Errorf("%s is none of the Secret's, which are in %s", path, mount)
		}
	}
	if _, err := config.Load(deploy + "docker/limits/limits.yaml"); err != nil {
		t.Error(err)
	}
}

func TestComposeRunsTheDaemonOnTheClusterOfDocker(t *testing.T) {
	var compose, cluster struct {
		Services map[string]struct {
			Command  []string
			Ports    []string
			Networks any
			ReadOnly bool `yaml:"read_only"`
		}
	}
	text, err := os.ReadFile("../../docker/cluster-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &cluster); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(example(t, "docker/compose.yml")), &compose); err != nil {
		t.Fatal(err)
	}
	daemon := compose.Services["shardlimit"]
	for i, want := range []string{"serve", "--config=/etc/shardlimit/limits.yaml"} {
		if daemon.Command[i] != want {
			t.Errorf("the daemon's command is %q, want %q in it", daemon.Command, want)
		}
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		address := cluster.Services["form"].Command[node[1]-'1']
		if !strings.Contains(daemon.Command[2], address) {
			t.Errorf("the daemon asks %s, not %s at %s", daemon.Command[2], node, address)
		}
	}
	if !daemon.ReadOnly || daemon.Ports[0] != "127.0.0.1:${SHARDLIMIT_PORT:-8080}:8080" {
		t.Errorf("%+v; want it read-only, on this machine alone", daemon)
	}
}

func TestTraefiksMiddlewareIsUsedByItsRouter(t *testing.T) {
	var file struct {
		HTTP struct {
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address             string
					TrustForwardHeader  bool     `yaml:"trustForwardHeader"`
					AuthResponseHeaders []string `yaml:"authResponseHeaders"`
				} `yaml:"forwardAuth"`
			}
			Routers map[string]struct {
				Rule        string
				Middlewares []string
				Service     string
			}
			Services map[string]struct {
				LoadBalancer struct {
					Servers []struct{ URL string }
				} `yaml:"loadBalancer"`
			}
		} `yaml:"http"`
	}
	// Strict, as Traefik is: its own types would take minutes to build for these few names.
	if err := yaml.UnmarshalWithOptions([]byte(example(t, "traefik/shardlimit.yml")), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if len(file.HTTP.Routers) != 1 {
		t.Errorf("routers %v, want one", file.HTTP.Routers)
	}
	for name, r := range file.HTTP.Routers {
		if len(r.Middlewares) == 0 {
			t.Errorf("router %s asks nobody", name)
		}
		if _, ok := file.HTTP.Services[r.Service]; !ok {
			t.Errorf("router %s: no service %s", name, r.Service)
		}
		for _, m := range r.Middlewares {
			if a := file.HTTP.Middlewares[m].ForwardAuth.Address; !strings.HasSuffix(a, "/v1/authorize?policy=api") {
				t.Errorf("middleware %s asks %q, want the daemon", m, a)
			}
		}
	}
}
