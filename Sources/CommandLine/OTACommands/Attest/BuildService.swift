import OTAClient
import OTAFirmware
import OTASigning

/// The build service that runs this process in a job: GitHub Actions or GitLab CI. The values come from the environment variables that the
/// service sets.
struct BuildService {
    /// The URI of the builder: the workflow on GitHub, the runner on GitLab.
    let builder: String
    /// The URI of the job.
    let invocation: String
    /// The URI of the repository, for example `git+https://github.com/acme/lamp@refs/heads/main`.
    let repository: String
    /// The commit: 40 or 64 hexadecimal digits.
    let commit: String

    /// Reads the environment variables of the build service.
    ///
    /// Sources: https://docs.github.com/en/actions/reference/workflows-and-actions/variables and
    /// https://docs.gitlab.com/ci/variables/predefined_variables/
    ///
    /// - Throws: a usage failure if neither of the two services runs this process, or if a required variable is missing or malformed.
    init() throws(Failure) {
        if Environment.value("GITHUB_RUN_ID") != nil {
            let server = try Self.address("GITHUB_SERVER_URL")
            let project = "\(server)/\(try Self.word("GITHUB_REPOSITORY"))"
            let attempt = "\(try Self.word("GITHUB_RUN_ID"))/attempts/\(try Self.word("GITHUB_RUN_ATTEMPT"))"
            builder = "\(server)/\(try Self.word("GITHUB_WORKFLOW_REF"))"
            invocation = "\(project)/actions/runs/\(attempt)"
            repository = "git+\(project)@\(try Self.word("GITHUB_REF"))"
            commit = try Self.commit("GITHUB_SHA")
        } else if Environment.value("CI_JOB_URL") != nil {
            let project = try Self.address("CI_PROJECT_URL")
            builder = "\(project)/-/runners/\(try Self.word("CI_RUNNER_ID"))"
            invocation = try Self.address("CI_JOB_URL")
            repository = "git+\(project)"
            commit = try Self.commit("CI_COMMIT_SHA")
        } else {
            throw .usage(
                "no build service runs this command: neither GITHUB_RUN_ID nor CI_JOB_URL is set, and SLSA provenance names the build service",
                hint:
                    "run attest in a job of GitHub Actions or GitLab CI, or give your own predicate: --predicate FILE --predicate-type URI"
            )
        }
    }

    private static func word(_ name: String) throws(Failure) -> String {
        try read(name, "text without spaces") { !$0.isEmpty }
    }

    private static func address(_ name: String) throws(Failure) -> String {
        try read(name, "a URL that starts with https:// or http://") {
            $0.hasPrefix("https://") || $0.hasPrefix("http://")
        }
    }

    private static func commit(_ name: String) throws(Failure) -> String {
        try read(name, "40 or 64 hexadecimal digits") {
            [40, 64].contains($0.utf8.count) && Hex.decode($0) != nil
        }
    }

    private static func read(
        _ name: String, _ rule: String, _ isValid: (String) -> Bool
    ) throws(Failure) -> String {
        let advice =
            "set the variables of the build service, or give your own predicate: --predicate FILE --predicate-type URI"
        guard let value = Environment.value(name) else {
            throw .usage("the environment variable \(name) is not set", hint: advice)
        }
        guard value.isPrintable, !value.contains(" "), isValid(value) else {
            throw .usage("the environment variable \(name) is '\(value)'; expected \(rule)", hint: advice)
        }
        return value
    }
}

/// SLSA provenance, version 1 (https://slsa.dev/spec/v1.0/provenance): a document that names the service that built a bundle, and the
/// sources of the bundle.
enum Provenance {
    static let type = "https://slsa.dev/provenance/v1"
    /// The URI that identifies the format of `externalParameters`. docs/provenance.md describes this format.
    static let buildType = "urn:otaflash:attest:1"

    /// Creates the provenance of a bundle. The `externalParameters` in the provenance contain the values of the manifest: product, version,
    /// security counter, hardware revisions, required version and minimum battery level.
    static func predicate(_ manifest: Manifest, by service: BuildService) -> JSON {
        var parameters: [(String, JSON)] = [
            ("product", .string(manifest.product.text)), ("version", .string(manifest.version.text)),
            ("counter", .number("\(manifest.securityCounter)")),
        ]
        if let hardware = manifest.hardware { parameters.append(("hardware", .string(hardware.description))) }
        if let requires = manifest.requires { parameters.append(("requires", .string(requires.description))) }
        if let battery = manifest.minimumBattery { parameters.append(("minimumBattery", .number("\(battery)"))) }
        let dependency = object([
            ("uri", .string(service.repository)), ("digest", object([("gitCommit", .string(service.commit))])),
        ])
        return object([
            (
                "buildDefinition",
                object([
                    ("buildType", .string(buildType)), ("externalParameters", object(parameters)),
                    ("resolvedDependencies", .array([dependency])),
                ])
            ),
            (
                "runDetails",
                object([
                    ("builder", object([("id", .string(service.builder))])),
                    ("metadata", object([("invocationId", .string(service.invocation))])),
                ])
            ),
        ])
    }

    private static func object(_ members: [(String, JSON)]) -> JSON {
        .object(members.map { JSON.Member($0, $1) })
    }
}
