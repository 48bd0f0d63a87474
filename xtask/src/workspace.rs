//! The workspace as `cargo metadata` tells it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    problem::Problem,
    process::{cargo, display, read},
};

/// All packages, ours and those that we depend on, and who needs whom.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
    publish: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) req: String,
    pub(crate) path: Option<PathBuf>,
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Workspace {
    /// Asks cargo, with every feature on.
    pub(crate) fn load() -> Result<Self, Problem> {
        let mut command = cargo(["metadata", "--format-version", "1", "--all-features"]);
        let answer = read(&mut command)?;
        serde_json::from_str(&answer).map_err(|error| Problem::NotUnderstood {
            command: display(&command),
            reason: error.to_string(),
        })
    }

    /// The manifest of the package that stands in this repository but not in this workspace: it measures limitador, and what
    /// that is built from must not be a burden here.
    pub(crate) fn limitador(&self) -> PathBuf {
        self.workspace_root.join("benches/limitador/Cargo.toml")
    }

    /// Every package of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The packages under `crates/`.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &Package> {
        let crates = self.workspace_root.join("crates");
        self.members()
            .filter(move |package| package.manifest_path.starts_with(&crates))
    }

    /// The packages that users get from the registry.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|package| package.is_published())
    }

    /// What `package` is built from, itself apart: its dependencies and theirs, those for tests left out.
    pub(crate) fn built_from(&self, package: &Package) -> Vec<&Package> {
        let edges: BTreeMap<&str, &[Edge]> = self
            .resolve
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), node.deps.as_slice()))
            .collect();
        let mut reached = BTreeSet::new();
        let mut open = vec![package.id.as_str()];
        while let Some(id) = open.pop() {
            let edges = edges.get(id).copied().unwrap_or_default();
            for edge in edges.iter().filter(|edge| edge.is_needed_to_build()) {
                if reached.insert(edge.pkg.as_str()) {
                    open.push(&edge.pkg);
                }
            }
        }
        self.packages
            .iter()
            .filter(|package| reached.contains(package.id.as_str()))
            .collect()
    }
}

impl Package {
    pub(crate) fn root(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }

    /// Dependencies that are needed to build it; not those of its tests.
    pub(crate) fn build_dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
    }

    fn is_published(&self) -> bool {
        self.publish
            .as_ref()
            .is_none_or(|places| !places.is_empty())
    }
}

impl Edge {
    fn is_needed_to_build(&self) -> bool {
        self.dep_kinds
            .iter()
            .any(|dependency| dependency.kind.as_deref() != Some("dev"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, folder: &str, publish: &Value) -> Value {
        json!({
            "id": name, "name": name, "version": "0.1.0", "publish": publish, "features": {}, "dependencies": [],
            "manifest_path": format!("/w/{folder}/{name}/Cargo.toml"), "targets": []
        })
    }

    fn edge(to: &str, kind: &Value) -> Value {
        json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] })
    }

    fn workspace() -> Workspace {
        serde_json::from_value(json!({
            "packages": [
                package("a", "crates", &Value::Null),
                package("b", "tools", &json!([])),
                package("x", "registry", &Value::Null),
                package("y", "registry", &Value::Null),
                package("z", "registry", &Value::Null),
            ],
            "workspace_members": ["a", "b"],
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "resolve": { "nodes": [
                { "id": "a", "deps": [edge("x", &Value::Null), edge("z", &json!("dev"))] },
                { "id": "x", "deps": [edge("y", &json!("build"))] },
            ]}
        }))
        .unwrap()
    }

    fn names<'a>(packages: impl IntoIterator<Item = &'a Package>) -> Vec<&'a str> {
        packages
            .into_iter()
            .map(|package| package.name.as_str())
            .collect()
    }

    #[test]
    fn members_crates_and_published_packages_are_told_apart() {
        let workspace = workspace();
        assert_eq!(names(workspace.members()), ["a", "b"]);
        assert_eq!(names(workspace.crates()), ["a"]);
        assert_eq!(names(workspace.published()), ["a"]);
    }

    #[test]
    fn a_package_is_built_from_all_but_what_only_tests_need() {
        let workspace = workspace();
        let a = workspace.members().next().unwrap();
        assert_eq!(names(workspace.built_from(a)), ["x", "y"]);
    }
}
