//! What is refused, with its place. The sentences behind `//` are those of the API server or of Kueue's webhook.

use dryrack_yaml::Report;

use crate::Manifests;

/// The rendered faults of a text.
fn faults(text: &str) -> String {
    let mut report = Report::default();
    let source = report.add_source("test.yaml", text);
    let mut manifests = Manifests::default();
    manifests.text(source, text, true, &mut report);
    manifests.cluster(&mut report);
    report.finish().to_string()
}

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: main}}]\n  {spec}\n")
}

fn container(resources: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: main\n    resources: {resources}\n"
    )
}

fn object(version: &str, kind: &str, spec: &str) -> String {
    format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  {spec}\n")
}

const TEMPLATE: &str = "template: {metadata: {labels: {app: x}}, spec: {containers: [{name: m}]}}";

fn deployment(spec: &str) -> String {
    object("apps/v1", "Deployment", &format!("{spec}\n  {TEMPLATE}"))
}

fn queue(spec: &str, resources: &str) -> String {
    let group = format!("{{coveredResources: [cpu], flavors: [{{name: f, resources: [{{name: cpu, {resources}}}]}}]}}");
    object("kueue.x-k8s.io/v1beta2", "ClusterQueue", &format!("{spec}\n  resourceGroups:\n  - {group}"))
}

fn groups(groups: &str) -> String {
    object("kueue.x-k8s.io/v1beta2", "ClusterQueue", &format!("namespaceSelector: {{}}\n  resourceGroups:\n{groups}"))
}

/// Checks that each text has this error only, and that its place is that of the text in the middle.
fn expect(rows: &[(String, &str, &str)]) {
    for (text, at, message) in rows {
        let found = faults(text);
        assert_eq!(found.matches("error: ").count(), 1, "{text}\n{found}");
        assert!(found.contains(&format!("error: {message}")), "{text}\n{found}\nlacks {message}");
        let place = found.split("test.yaml:").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let (line, column) = place.split_once(':').expect("a line and a column");
        let line = text.lines().nth(line.parse::<usize>().expect("a number") - 1).unwrap_or_default();
        let rest = &line[column.parse::<usize>().expect("a number") - 1..];
        assert!(rest.starts_with(at), "{text}\n{found}\nis not at {at}");
    }
}

fn accept(rows: &[String]) {
    for text in rows {
        assert_eq!(faults(text), "", "{text}");
    }
}

#[test]
fn resources_are_refused() {
    expect(&[
        // must be an integer
        (container("{limits: {nvidia.com/gpu: 0.5}}"), "0.5", "`nvidia.com/gpu` must be an integer, found `0.5`"),
        (container("{limits: {nvidia.com/gpu: 1500m}}"), "1500m", "`nvidia.com/gpu` must be an integer, found `1500m`"),
        // must be greater than or equal to 0
        (
            container("{limits: {nvidia.com/gpu: -1}}"),
            "-1",
            "expected a quantity from 0 as `nvidia.com/gpu`, found `-1`",
        ),
        (container("{requests: {cpu: -500m}}"), "-500m", "expected a quantity from 0 as `cpu`, found `-500m`"),
        // Limit must be set for non overcommitable resources
        (container("{requests: {nvidia.com/gpu: 1}}"), "nvidia.com/gpu: 1", "`nvidia.com/gpu` needs a limit"),
        // must be equal to nvidia.com/gpu limit of 2
        (
            container("{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}"),
            "1}, limits",
            "the request of `nvidia.com/gpu` must equal its limit of 2, found `1`",
        ),
        // must be less than or equal to cpu limit of 1
        (
            container("{requests: {cpu: 2}, limits: {cpu: 1}}"),
            "2}, limits",
            "the request of `cpu` is above its limit of 1, found `2`",
        ),
        // must be a standard resource for containers
        (container("{limits: {gpu: 1}}"), "gpu: 1", "`gpu` is not a resource of containers"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: -1}}\n".to_string(),
            "-1",
            "expected a quantity from 0 as `cpu`",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {nvidia.com/gpu: 4096}}\n"
                .to_string(),
            "4096",
            "a node has at most 1,024 GPUs here, found `4096`",
        ),
    ]);
    accept(&[
        container("{limits: {nvidia.com/gpu: 1000m, cpu: 500m}}"),
        container("{requests: {nvidia.com/gpu: 2, memory: 1Gi}, limits: {nvidia.com/gpu: \"2\", memory: 1024Mi}}"),
        container("{requests: {hugepages-2Mi: 4Mi}, limits: {hugepages-2Mi: 4Mi}}"),
        container("{requests: {cpu: 2, ephemeral-storage: 1Gi}, limits: {nvidia.com/gpu: 0}}"),
    ]);
}

#[test]
fn tolerations_and_terms_are_refused() {
    let toleration = |rest: &str| pod(&format!("tolerations: [{{{rest}}}]"));
    let required = |term: &str| {
        let key = "requiredDuringSchedulingIgnoredDuringExecution";
        pod(&format!("affinity: {{nodeAffinity: {{{key}: {{nodeSelectorTerms: [{term}]}}}}}}"))
    };
    let spread = |rest: &str| pod(&format!("topologySpreadConstraints: [{rest}]"));
    let one = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}";
    let near = |term: &str| {
        let key = "requiredDuringSchedulingIgnoredDuringExecution";
        pod(&format!("affinity: {{podAffinity: {{{key}: [{term}]}}}}"))
    };
    expect(&[
        // value must be empty when `operator` is 'Exists'
        (toleration("key: a, operator: Exists, value: b"), "b}", "`value` must be empty when `operator` is `Exists`"),
        // operator must be Exists when `key` is empty
        (toleration("operator: Equal, value: b"), "Equal", "`operator` must be `Exists` when `key` is empty"),
        // effect must be 'NoExecute' when `tolerationSeconds` is set
        (
            toleration("key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5"),
            "NoSchedule",
            "`effect` must be `NoExecute` when `tolerationSeconds` is set",
        ),
        // must be specified when `operator` is 'In' or 'NotIn'
        (required("{matchExpressions: [{key: a, operator: In}]}"), "In}", "`values` must be specified"),
        // may not be specified when `operator` is 'Exists' or 'DoesNotExist'
        (
            required("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}"),
            "values: [b]",
            "`values` may not be specified when `operator` is `Exists` or `DoesNotExist`",
        ),
        // must be specified single value when `operator` is 'Lt' or 'Gt'
        (
            required("{matchExpressions: [{key: a, operator: Gt, values: [\"1\", \"2\"]}]}"),
            "values: [",
            "`values` must have a single value when `operator` is `Gt` or `Lt`",
        ),
        (
            required("{matchFields: [{key: metadata.name, operator: Exists}]}"),
            "Exists}",
            "a field of nodes is compared only by",
        ),
        // must have at least one node selector term
        (required(""), "nodeSelectorTerms", "a node selector needs at least one term"),
        // can not be empty
        (near("{topologyKey: \"\"}"), "\"\"", "`topologyKey` can not be empty"),
        (near("{labelSelector: {}}"), "labelSelector", "a term of a pod affinity lacks `topologyKey`"),
        // Duplicate value: "{zone, DoNotSchedule}"
        (
            spread(&format!("{one}, {one}")),
            "zone, whenUnsatisfiable: DoNotSchedule}]",
            "two spread constraints have the topology key `zone` and `DoNotSchedule`",
        ),
        (
            spread("{maxSkew: 1, minDomains: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}"),
            "2,",
            "`minDomains` needs `whenUnsatisfiable: DoNotSchedule`",
        ),
        (
            spread("{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}"),
            "0,",
            "expected a whole number from 1 to 2147483647 as `maxSkew`, found `0`",
        ),
        // spec.containers: Required value
        (pod("").replace("[{name: main}]", "[]"), "containers: []", "a pod needs at least one container"),
        (pod("").replace("{name: main}", "{name: Main_1}"), "Main_1", "`Main_1` is not a valid name"),
    ]);
    accept(&[
        toleration("operator: Exists"),
        toleration("key: a, value: b"),
        toleration("key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5"),
        required("{matchExpressions: [{key: a, operator: Lt, values: [\"-7\"]}, {key: b, operator: DoesNotExist}]}"),
        required("{matchFields: [{key: metadata.name, operator: In, values: [n]}]}"),
        spread(&format!("{one}, {}", one.replace("DoNotSchedule", "ScheduleAnyway"))),
    ]);
    // The API server accepts this.
    let said = faults(&required("{matchExpressions: [{key: a, operator: Gt, values: [big]}]}"));
    assert!(said.starts_with("warning: `Gt` and `Lt` compare whole numbers, so no node satisfies"), "{said}");
}

#[test]
fn controllers_are_refused() {
    let job =
        |policy: &str| object("batch/v1", "Job", &format!("template: {{spec: {{{policy}containers: [{{name: m}}]}}}}"));
    let many = |version: &str, kind: &str, spec: &str| {
        let template = "template: {spec: {restartPolicy: Never, containers: [{name: m}]}}";
        object(version, kind, &format!("{spec}\n  {template}"))
    };
    let set = |policy: &str, replicas: &str| {
        let template = format!("{{spec: {{template: {{spec: {{{policy}containers: [{{name: m}}]}}}}}}}}");
        let jobs = format!("replicatedJobs:\n  - name: w\n    replicas: {replicas}\n    template: {template}");
        object("jobset.x-k8s.io/v1alpha2", "JobSet", &jobs)
    };
    expect(&[
        // `selector` does not match template `labels`
        (
            deployment("selector: {matchLabels: {app: y}}"),
            "selector",
            "the selector does not match the labels of the template",
        ),
        (
            deployment("selector: {matchExpressions: [{key: app, operator: NotIn, values: [x]}]}"),
            "selector",
            "the selector does not match",
        ),
        // empty selector is invalid for deployment
        (deployment("selector: {}"), "selector", "the selector is empty"),
        (
            object("v1", "ReplicationController", &format!("selector: {{app: y}}\n  {TEMPLATE}")),
            "selector",
            "the selector does not match",
        ),
        // Unsupported value: "Never": supported values: "Always"
        (
            deployment("replicas: 1").replace("containers", "restartPolicy: Never, containers"),
            "Never",
            "the pods of this kind always restart",
        ),
        // Required value: valid values: "OnFailure", "Never"
        (job(""), "containers", "a Job needs a restart policy"),
        (job("restartPolicy: Always, "), "Always", "the pods of a Job may not restart always"),
        (set("restartPolicy: Always, ", "1"), "Always", "the pods of a Job may not restart always"),
        (many("batch/v1", "Job", "completions: 2000000000"), "2000000000", "Job `a` makes more than 1000000 pods"),
        (many("batch/v1", "Job", "parallelism: 1000001"), "1000001", "Job `a` makes more than 1000000 pods"),
        (set("", "2000000"), "2000000", "JobSet `a` makes more than 1000000 pods"),
    ]);
    accept(&[
        deployment("selector: {matchLabels: {app: x}, matchExpressions: [{key: app, operator: Exists}]}"),
        job("restartPolicy: OnFailure, "),
        // The webhook of JobSet fills in the policy.
        set("", "2"),
        object("v1", "ReplicationController", TEMPLATE),
        object(
            "v1",
            "ReplicationController",
            &format!("selector: {{app: }}\n  {}", TEMPLATE.replace("app: x", "app: ")),
        ),
    ]);
}

#[test]
fn a_constraint_of_devices_names_an_attribute() {
    let claim = |constraint: &str| {
        let devices = "requests: [{name: r, exactly: {deviceClassName: c}}]";
        let class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n---\n";
        let spec = format!("devices: {{{devices}, constraints: [{{requests: [r]{constraint}}}]}}");
        class.to_string() + &object("resource.k8s.io/v1", "ResourceClaim", &spec)
    };
    // exactly one constraint type is required
    expect(&[(claim(""), "requests: [r]", "a constraint of devices lacks `matchAttribute`")]);
    accept(&[claim(", matchAttribute: gpu.example.com/numa"), claim(", distinctAttribute: gpu.example.com/numa")]);
}

#[test]
fn classes_and_budgets_are_refused() {
    let class = |name: &str, value: i64| {
        format!("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n")
    };
    let runtime = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\n---\n";
    let high = format!("{}---\n", class("high", 100));
    expect(&[
        // maximum allowed value of a user defined priority is 1000000000
        (
            class("top", 1_000_000_001),
            "1000000001",
            "the value of a PriorityClass is at most 1000000000, found 1000000001",
        ),
        (class("system-mine", 5), "system-mine", "`system-mine` begins with `system-`"),
        (class("system-node-critical", 5), "5", "the value of `system-node-critical` is 2000001000, found 5"),
        // the integer value of priority (5) must not be provided in pod spec
        (
            format!(
                "{high}{}",
                pod("{priorityClassName: high, priority: 5}")
                    .replace("\n  {", "\n  ")
                    .replace(", p", "\n  p")
                    .replace("5}", "5")
            ),
            "high",
            "the PriorityClass `high` has the value 100, but the pod's priority is 5",
        ),
        (format!("{runtime}{}", pod("runtimeClassName: kat")), "kat", "no RuntimeClass is named `kat`"),
        // minAvailable and maxUnavailable cannot be both set
        (
            object("policy/v1", "PodDisruptionBudget", "minAvailable: 1\n  maxUnavailable: 1"),
            "1",
            "`minAvailable` and `maxUnavailable` cannot be both set",
        ),
        // must not be greater than 100%
        (
            object("policy/v1", "PodDisruptionBudget", "maxUnavailable: 150%"),
            "150%",
            "`maxUnavailable` is at most 100%",
        ),
        (
            object("policy/v1beta1", "PodDisruptionBudget", "minAvailable: 1"),
            "policy/v1beta1",
            "`PodDisruptionBudget` is not a kind of `policy/v1beta1`",
        ),
        (
            deployment("replicas: 1").replace("apps/v1", "apps/v1beta2"),
            "apps/v1beta2",
            "`Deployment` is not a kind of `apps/v1beta2`",
        ),
    ]);
    accept(&[
        class("system-cluster-critical", 2_000_000_000),
        class("top", 1_000_000_000),
        object("policy/v1", "PodDisruptionBudget", "minAvailable: 1"),
        object("policy/v1", "PodDisruptionBudget", "minAvailable: 100%"),
    ]);
    // A cluster resolved the names when it made the pod.
    let made =
        pod("priorityClassName: high\n  priority: 5\n  runtimeClassName: gone").replace("name: a", "name: a, uid: u-1");
    accept(&[format!("{high}{made}"), format!("{runtime}{high}{made}")]);
    let said = faults(&format!(
        "{}---\n{}",
        pod("runtimeClassName: kata"),
        pod("runtimeClassName: kata").replace("name: a", "name: b")
    ));
    assert_eq!(
        said.matches("the RuntimeClass `kata` is not in the files, so its overhead and nodes are unknown").count(),
        1,
        "{said}"
    );
    // The cluster fills in its pods, but not the templates of its controllers.
    let running = deployment("replicas: 1")
        .replace("{containers", "{runtimeClassName: gone, containers")
        .replace("name: a", "name: a, uid: u-1");
    let said = faults(&format!("{runtime}{running}"));
    assert!(said.starts_with("warning: the RuntimeClass `gone` is not in the files"), "{said}");
}

#[test]
fn names_and_lists_are_refused() {
    let named = |version: &str, kind: &str, name: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\n")
    };
    expect(&[
        // a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'
        (named("v1", "Node", "My_node"), "My_node", "`My_node` is not a valid name"),
        (named("v1", "Node", "a..b"), "a..b", "`a..b` is not a valid name"),
        (named("v1", "Namespace", "a.b"), "a.b", "`a.b` is not a valid name"),
        (named("v1", "Service", "a, namespace: B"), "B", "`B` is not a valid namespace"),
        (
            "apiVersion: v1\nkind: List\nitems: foo\n".to_string(),
            "foo",
            "expected a list of objects as `items`, found a single value",
        ),
        ("apiVersion: v1\nkind: List\n".to_string(), "apiVersion", "the list lacks `items`"),
    ]);
    accept(&[named("v1", "Node", "gpu-1.example.com"), "apiVersion: v1\nkind: List\nitems: []\n".to_string()]);
}

#[test]
fn quotas_are_refused() {
    let in_cohort = "cohortName: c";
    expect(&[
        (
            groups("  - {coveredResources: [cpu], flavors: []}"),
            "flavors: []",
            "a resource group has at least one flavor",
        ),
        (
            groups("  - {coveredResources: [], flavors: [{name: f, resources: []}]}"),
            "coveredResources",
            "a resource group covers at least",
        ),
        // must be greater than or equal to 0
        (queue("namespaceSelector: {}", "nominalQuota: -1"), "-1", "expected a quantity from 0 as `nominalQuota`"),
        // must be nil when cohort is empty
        (
            queue("namespaceSelector: {}", "nominalQuota: 1, borrowingLimit: 1"),
            "1}",
            "`borrowingLimit` must be absent when the queue has no cohort",
        ),
        (queue("stopPolicy: None", "nominalQuota: 1, lendingLimit: 1"), "1}", "`lendingLimit` must be absent"),
        // must be less than or equal to the nominalQuota
        (queue(in_cohort, "nominalQuota: 1, lendingLimit: 2"), "2}", "`lendingLimit` is above `nominalQuota`"),
        // must match the name in coveredResources
        (
            groups("  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: gpu, nominalQuota: 1}]}]}"),
            "gpu",
            "`gpu` is not in `coveredResources`",
        ),
        // flavors must have the same number of resources as the coveredResources
        (
            groups(
                "  - {coveredResources: [cpu, memory], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}",
            ),
            "resources: [",
            "the flavor has no quota of `memory`",
        ),
        // Duplicate value
        (
            groups(
                "  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}\n  \
                 - {coveredResources: [memory], flavors: [{name: f, resources: [{name: memory, nominalQuota: 1}]}]}",
            ),
            "f, resources: [{name: memory",
            "the flavor `f` is named twice",
        ),
        (
            groups(
                "  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}\n  \
                 - {coveredResources: [cpu], flavors: [{name: g, resources: [{name: cpu, nominalQuota: 1}]}]}",
            ),
            "cpu], flavors: [{name: g",
            "the resource `cpu` is named twice",
        ),
        (
            queue("parentName: \"\"", "nominalQuota: 1, borrowingLimit: 1").replace("ClusterQueue", "Cohort"),
            "1}",
            "`borrowingLimit` must be absent when the cohort has no parent",
        ),
    ]);
    accept(&[
        queue(in_cohort, "nominalQuota: 2, borrowingLimit: 1, lendingLimit: 2"),
        // Kueue lets a cohort lend more than its own quota.
        queue("parentName: c", "nominalQuota: 1, lendingLimit: 2").replace("ClusterQueue", "Cohort"),
    ]);
}

#[test]
fn objects_of_kueue_are_refused_by_the_rules_of_their_definitions() {
    let preemption = |fields: &str| queue(&format!("preemption: {{{fields}}}"), "nominalQuota: 1");
    let object = |kind: &str, spec: &str| {
        format!("apiVersion: kueue.x-k8s.io/v1beta2\nkind: {kind}\nmetadata: {{name: o}}\nspec: {{{spec}}}\n")
    };
    let both_never = "`borrowWithinCohort.policy` must be Never when `reclaimWithinCohort` is Never";
    expect(&[
        // reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never
        (
            preemption("reclaimWithinCohort: Never, borrowWithinCohort: {policy: LowerPriority}"),
            "LowerPriority",
            both_never,
        ),
        (preemption("borrowWithinCohort: {policy: LowerPriority}"), "LowerPriority", both_never),
        (
            preemption("reclaimWithinCohort: LowerOrNewerEqualPriority"),
            "LowerOrNewer",
            "`LowerOrNewerEqualPriority` is not known",
        ),
        // at least one nodeLabel is required when topology is set
        (object("ResourceFlavor", "topologyName: t"), "t}", "a flavor with a topology has at least one node label"),
        // must be unique
        (
            object("Topology", "levels: [{nodeLabel: rack}, {nodeLabel: rack}]"),
            "rack}]",
            "the level `rack` is named twice",
        ),
        // the kubernetes.io/hostname label can only be used at the lowest level of topology
        (
            object("Topology", "levels: [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: rack}]"),
            "kubernetes.io/hostname",
            "`kubernetes.io/hostname` can only be the last level",
        ),
        // unknown field
        (
            queue("cohort: all", "nominalQuota: 1"),
            "all",
            "`cohort` is not a field of a ClusterQueue in kueue.x-k8s.io/v1beta2",
        ),
        (
            queue("cohortName: all", "nominalQuota: 1").replace("v1beta2", "v1beta1"),
            "all",
            "`cohortName` is not a field of a ClusterQueue in kueue.x-k8s.io/v1beta1",
        ),
        (object("Cohort", "parent: all"), "all", "`parent` is not a field of a Cohort in kueue.x-k8s.io/v1beta2"),
    ]);
    accept(&[
        preemption("reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}"),
        preemption("borrowWithinCohort: {policy: Never}"),
        preemption("borrowWithinCohort: {}"),
        queue("cohort: all", "nominalQuota: 1, borrowingLimit: 1").replace("v1beta2", "v1beta1"),
        // Releases differ in the name of the field in this version.
        object("Cohort", "parent: all").replace("v1beta2", "v1beta1"),
        object("Cohort", "parentName: all").replace("v1beta2", "v1beta1"),
        object("ResourceFlavor", "topologyName: t, nodeLabels: {pool: a}"),
        object("Topology", "levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]"),
    ]);
}

/// `exactly` is in `v1beta2` and `v1`, and the flat form in `v1beta1` and `v1alpha3` (`staging/src/k8s.io/api/resource` of
/// Kubernetes 1.35). The devices of a slice have `basic` in the older ones.
#[test]
fn a_field_of_another_version_of_claims_is_unknown() {
    let claim = |version: &str, request: &str| {
        object(
            &format!("resource.k8s.io/{version}"),
            "ResourceClaim",
            &format!("devices: {{requests: [{{name: gpu, {request}}}]}}"),
        )
    };
    let slice = |version: &str, device: &str| {
        let spec = format!("driver: d\n  pool: {{name: p}}\n  nodeName: n\n  devices: [{{name: a, {device}}}]");
        object(&format!("resource.k8s.io/{version}"), "ResourceSlice", &spec)
    };
    let (exact, flat) = ("exactly: {deviceClassName: c}", "deviceClassName: c");
    let (basic, plain) = ("basic: {attributes: {a: {int: 1}}}", "attributes: {a: {int: 1}}");
    for (text, unknown) in [
        (claim("v1", flat), Some("`deviceClassName` of a request in `resource.k8s.io/v1`")),
        (claim("v1beta2", flat), Some("`deviceClassName` of a request in `resource.k8s.io/v1beta2`")),
        (claim("v1beta1", exact), Some("`exactly` of a request in `resource.k8s.io/v1beta1`")),
        (slice("v1", basic), Some("`basic` of a device in `resource.k8s.io/v1`")),
        (slice("v1beta1", plain), Some("`attributes` of a device in `resource.k8s.io/v1beta1`")),
        (claim("v1", exact), None),
        (claim("v1beta2", exact), None),
        (claim("v1beta1", flat), None),
        (claim("v1alpha3", flat), None),
        (slice("v1", plain), None),
        (slice("v1beta1", basic), None),
    ] {
        let found = faults(&text);
        match unknown {
            Some(unknown) => {
                assert!(found.contains(&format!("error: unknown field {unknown}: it is a field of")), "{found}")
            }
            None => assert!(!found.contains("error: "), "{text}\n{found}"),
        }
    }
}
