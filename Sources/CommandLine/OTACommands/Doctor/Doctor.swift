import ArgumentParser
import DBus
import Glibc
import OTAFirmware
import OTASigning
import SystemPackage

/// The command `doctor`, which checks the requirements of a push over Bluetooth, serial ports and UDP.
struct Doctor: Command {
    static let name = "doctor"
    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Check the requirements for a push on this machine.",
        discussion: """
            Example: otaflash doctor --adapter hci1

            doctor checks that this machine can push over Bluetooth, serial ports and UDP, and that the trusted keys can be read. \
            It needs no device. Each check has one of these results:

              ok       the requirement is met
              slow     a setting makes a push slower
              missing  the requirement is not met, and a push that needs it fails
              unknown  the check was not possible, because another requirement is missing

            Exit 0: no requirement is missing. Exit 69: a requirement is missing; a push over another transport can still work.
            """)

    @OptionGroup var radio: AdapterOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, trust: trust.trust) }

    func answer(_ console: Console) async throws -> DoctorAnswer {
        let service = await BluetoothService.examine(console.logger)
        var checks = service.checks
        checks.append(
            service.isUsable
                ? await AdapterCheck.examine(radio.adapter, console.logger)
                : AdapterCheck.examine(radio.adapter, ofKernel: AdapterCheck.kernelAdapters()))
        checks.append(RadioSwitch.check(RadioSwitch.all()))
        checks += SpeedSettings.checks(of: service.configuration)
        checks.append(SerialPort.check(SerialPort.all()))
        checks.append(DatagramCheck.examine())
        let keys: [KeyID]
        do throws(KeyError) {
            let store = try trust.store(console)
            keys = store.imageKeys.map(\.id)
            let places = trust.paths.map(\.string).joined(separator: ", ")
            let names = keys.map { id in "\(id)" + (store.scope(of: id).map { " (\($0) only)" } ?? "") }
            let policy = "\(store.policy)"
            checks.append(
                .ok(
                    "trust",
                    "\(names.joined(separator: ", ")); from \(places)\(policy.isEmpty ? "" : "; policy: \(policy)")"))
        } catch {
            keys = []
            let failure = Failure(error, in: invocation)
            checks.append(
                Check(
                    name: "trust", state: .missing, message: failure.message,
                    advice: failure.hints))
        }
        return DoctorAnswer(
            checks: checks,
            trust: DoctorAnswer.Trust(paths: trust.paths.map(\.string), keys: keys.map(\.description)))
    }
}

/// The result of the command `doctor`.
struct DoctorAnswer: CommandAnswer {
    struct Trust: Encodable, Sendable {
        let paths: [String]
        /// The ids of the trusted keys.
        let keys: [String]
    }
    let checks: [Check]
    let trust: Trust
    let versions = PartVersions()

    private enum CodingKeys: CodingKey {
        case checks, trust, versions
    }

    var lines: [TerminalLine] {
        let width = checks.map(\.name.count).max() ?? 0
        let lines = checks.flatMap { check in
            let name = check.name + String(repeating: " ", count: width - check.name.count)
            let state = check.state.rawValue + String(repeating: " ", count: 7 - check.state.rawValue.count)
            let indent = String(repeating: " ", count: 7 + 2 + width + 2)
            return ["\(state)  \(name)  \(check.message)"] + (check.advice ?? []).map { indent + $0 }
        }
        return (lines + [versions.text]).map { TerminalLine($0) }
    }

    var failure: Failure? {
        let missing = checks.filter { $0.state == .missing }
        guard let first = missing.first else { return nil }
        return Failure(
            "not-ready", .unavailable,
            "not ready for a push, missing: \(missing.map(\.name).joined(separator: ", "))",
            hints: first.advice ?? ["follow the steps above, then: otaflash doctor"])
    }
}

/// The result of one check by `doctor`.
package struct Check: Encodable, Sendable, Equatable {
    package enum State: String, Encodable, Sendable {
        case ok
        /// A push works, but a setting makes the push slower or less reliable.
        case slow
        /// The requirement is not met. A push that needs it fails.
        case missing
        /// The check was not possible, because another required part is missing.
        case unknown
    }
    /// The name of the check, which is the same in every version of otaflash.
    package let name: String
    package let state: State
    /// The finding of the check, for the user.
    package let message: String
    /// The steps that fix the problem, with their commands. Each element is one step.
    package let advice: [String]?

    static func ok(_ name: String, _ message: String) -> Check {
        Check(name: name, state: .ok, message: message, advice: nil)
    }

    static func unknown(_ name: String, _ message: String) -> Check {
        Check(name: name, state: .unknown, message: message, advice: nil)
    }

    static func slow(_ name: String, _ message: String, _ advice: String...) -> Check {
        Check(name: name, state: .slow, message: message, advice: advice)
    }

    static func missing(_ name: String, _ message: String, _ advice: String...) -> Check {
        Check(name: name, state: .missing, message: message, advice: advice)
    }
}

/// The versions of otaflash and of the software that otaflash uses.
struct PartVersions: Encodable, Sendable {
    let otaflash = Version.number
    let swift = Self.compiler
    let libcrypto = Libcrypto.version
    let libdbus = DBusLibrary.version
    /// The version of BlueZ; nil if BlueZ is not installed, or if its version is unknown.
    let bluez = BluetoothDaemon.version
    let linux = Self.kernel

    private enum CodingKeys: CodingKey {
        case otaflash, swift, libcrypto, libdbus, bluez, linux
    }

    var text: String {
        "otaflash \(otaflash), built by Swift \(swift); libcrypto \(libcrypto), libdbus \(libdbus), "
            + "BlueZ \(bluez ?? "not installed"), Linux \(linux)"
    }

    private static var compiler: String {
        #if compiler(>=6.4)
            "6.4 or later"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    private static var kernel: String {
        var names = utsname()
        guard uname(&names) == 0 else { return "unknown" }
        return withUnsafeBytes(of: names.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
