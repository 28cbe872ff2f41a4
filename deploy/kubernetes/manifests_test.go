// Package kubernetes holds the manifests beside it to Kubernetes' own types. It is
// a module of its own, as nobody else needs those.
package kubernetes

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// blank returns an object of a kind for a document to be read into.
func blank(t meta.TypeMeta) meta.Object {
	switch t {
	case meta.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}:
		return &core.ConfigMap{}
	case meta.TypeMeta{APIVersion: "v1", Kind: "Secret"}:
		return &core.Secret{}
	case meta.TypeMeta{APIVersion: "v1", Kind: "Service"}:
		return &core.Service{}
	case meta.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}:
		return &apps.Deployment{}
	case meta.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:
		return &policy.PodDisruptionBudget{}
	default:
		return nil
	}
}

// documents returns those of a file.
func documents(t *testing.T, path string) (all [][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	d := kubeyaml.NewDocumentDecoder(f)
	defer func() { _ = d.Close() }()
	for buffer := make([]byte, 1<<16); ; {
		n, err := d.Read(buffer)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, slices.Clone(buffer[:n]))
	}
}

// TestManifestsAreWhatKubernetesTakes: each field is one of its kind's, of its
// type, and there once.
func TestManifestsAreWhatKubernetesTakes(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) != 2 {
		t.Fatalf("%q, %v: want service.yaml and sidecar.yaml", paths, err)
	}
	for _, path := range paths {
		for i, text := range documents(t, path) {
			var kind meta.TypeMeta
			if err := yaml.Unmarshal(text, &kind); err != nil {
				t.Fatalf("%s, document %d: %v", path, i, err)
			}
			object := blank(kind)
			if object == nil {
				t.Errorf("%s, document %d: %+v is no kind that is held here", path, i, kind)
				continue
			}
			if err := yaml.UnmarshalStrict(text, object); err != nil {
				t.Errorf("%s, %s: %v", path, kind.Kind, err)
			}
			if faults := validation.IsDNS1123Subdomain(object.GetName()); len(faults) > 0 {
				t.Errorf("%s, %s: name %q: %q", path, kind.Kind, object.GetName(), faults)
			}
			if d, is := object.(*apps.Deployment); is {
				holdDeployment(t, path, d)
			}
		}
	}
}

// holdDeployment: pods are chosen by their own labels, mount volumes that there are, and name ports that there are.
func holdDeployment(t *testing.T, path string, d *apps.Deployment) {
	t.Helper()
	chosen, err := meta.LabelSelectorAsMap(d.Spec.Selector)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for key, value := range chosen {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("%s: the selector wants %s=%s, and the pods have %v", path, key, value, d.Spec.Template.Labels)
		}
	}
	pod := d.Spec.Template.Spec
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s, %s: there is no volume %s", path, c.Name, m.Name)
			}
		}
		for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p != nil && p.HTTPGet != nil && !slices.ContainsFunc(c.Ports, func(port core.ContainerPort) bool { return port.Name == p.HTTPGet.Port.String() }) {
				t.Errorf("%s, %s: a probe of port %s, of %+v", path, c.Name, p.HTTPGet.Port.String(), c.Ports)
			}
		}
	}
}
