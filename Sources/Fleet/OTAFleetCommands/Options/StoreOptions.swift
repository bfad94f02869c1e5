import ArgumentParser
import NATS
import OTAClient
import OTACommands
import OTAFirmware
import OTAFleet
import OTALocalStore
import OTANATSStore
import OTASigning
import OTAStore
import SystemPackage

/// The options that select the store of the fleet: a file of this machine, or NATS servers.
struct StoreOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The store in a file on this machine, in place of a server.",
            discussion:
                "The store is the first of these: this file; the server of --server (not together with --store); the server of "
                + "$\(ServerOptions.variable); the file ~/.local/state/otaflash/fleet/fleet.db.",
            valueName: "file"),
        completion: .file())
    var store: String?

    @OptionGroup var server: ServerOptions

    func validate() throws {
        guard let store else { return }
        guard server.server.isEmpty else {
            throw ValidationError("--store and --server cannot be used together: a fleet has one store.")
        }
        guard !store.hasPrefix("nats://"), !store.hasPrefix("tls://") else {
            throw ValidationError("'\(store)' is not a file. Give the address of a NATS server as --server \(store).")
        }
    }

    /// True if the store is on NATS servers. An option on the command line precedes the environment variable.
    var isOnServer: Bool { store == nil && server.isGiven }

    /// Opens the store, passes it to `body`, and closes it. A file that does not exist is created.
    ///
    /// - Parameters:
    ///   - console: receives a warning for each invalid row of a file; nil: such rows are ignored without a warning.
    ///   - opening: the maximum time to wait for other processes that have locked the file, before `body`.
    /// - Throws: `StoreError`, `ClientError`; the errors of ``ServerOptions/withClient(unreachable:_:)`` and of `body`.
    func withStore<Result: Sendable>(
        for console: Console? = nil, opening: Duration? = nil, _ body: (any CleanableStore) async throws -> Result
    ) async throws -> Result {
        if isOnServer { return try await server.withClient { try await body(NATSStore($0)) } }
        let file = try store.map { FilePath($0) } ?? FleetFolder.path.appending("fleet.db")
        return try await body(
            LocalStore(
                file, opening: opening,
                skip: { error in console?.warn(error.failure.message, hint: error.failure.hint) }))
    }

    /// The same for a command that runs until a signal. Such a command often starts before the network, or while the server restarts. So
    /// this method waits for the server, and warns once. If many gateways use one file, it waits up to 60 s for the file. `body` gets a
    /// ``StoreAccess`` that shows whether the server still accepts the user.
    func withStore<Result: Sendable>(
        waitingFor console: Console, _ body: (any FleetStore, StoreAccess) async throws -> Result
    ) async throws -> Result {
        let access = StoreAccess()
        guard isOnServer else {
            return try await withStore(for: console, opening: .seconds(60)) { try await body($0, access) }
        }
        var isWarned = false
        return try await server.withClient(
            unreachable: { error in
                if !isWarned {
                    console.warn(
                        error.failure.message,
                        hint: "wait: this program tries again every 2 s; if this does not end, \(error.failure.hint)")
                }
                isWarned = true
            }) { client in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { await access.watch(client) }
                    let result = try await body(NATSStore(client), access)
                    group.cancelAll()
                    return result
                }
            }
    }
}

/// The folder of the fleet in the state folder.
enum FleetFolder {
    /// The default file of the controller's private key, for the help of a command.
    static let controllerKeyHelp = "~/.local/state/otaflash/fleet/controller.pem, which is created at the first use"

    /// - Throws: `ClientError`; `Failure` if there is no state folder.
    static var path: FilePath {
        get throws {
            guard let folder = try Environment.stateFolder() else {
                throw Failure(
                    "cannot-create", .cannotCreate, "no folder for the fleet: HOME is not set",
                    hint: "set OTAFLASH_STATE_DIR to a writable folder")
            }
            return folder.appending("fleet")
        }
    }

    /// Whether this machine's controller has a key.
    static func hasControllerKey() throws -> Bool {
        (try? FilePath(path.appending("controller.pem").string).stat()) != nil
    }

    /// Returns the key of this machine's controller, which is created at the first use.
    ///
    /// - Throws: `KeyError`, `ClientError`.
    static func controllerKey() throws -> PrivateKey {
        let name = try path.appending("controller")
        let file = FilePath(name.string + ".pem")
        do throws(KeyError) {
            return try PrivateKey(pem: KeyFile.privateKeyText(at: file), passphrase: nil)
        } catch {
            guard error.code == .noSuchFile else { throw error }
        }
        do { try Folder.create(path) } catch {
            throw Failure(
                "cannot-create", .cannotCreate, "cannot create the folder \(try path): \(error)",
                hint: "set OTAFLASH_STATE_DIR to a writable folder")
        }
        let key = try PrivateKey.generate()
        do throws(KeyError) {
            _ = try KeyFile.write(key, name: name)
            return key
        } catch {
            // Another process created the key after the first read. Its file is complete: a key file gets its name after its contents.
            guard error.code == .exists else { throw error }
            return try PrivateKey(pem: KeyFile.privateKeyText(at: file), passphrase: nil)
        }
    }
}

extension FleetStore {
    /// Writes a record. If the outcome is unknown, reads the record back.
    ///
    /// - Throws: `stale-record` if another process has changed the record; `store-unavailable` if the record was not written.
    func put(_ bytes: [UInt8], at key: RecordKey, expecting revision: Revision) async throws {
        switch try await write(bytes, at: key, expecting: revision) {
        case .written: return
        case .unknown:
            if try await read(key)?.bytes == bytes { return }
            throw StoreError(
                .unavailable, "the store did not confirm the write of \(key)", hint: "run the command again")
        case .conflict:
            throw FleetError(
                .staleRecord, "another process has changed \(key) at the same time", hint: "run the command again")
        }
    }
}

extension RecordKey {
    init(_ release: ReleaseID) throws(Failure) { try self.init(.releases, release.text) }
    init(_ rollout: RolloutName) throws(Failure) { try self.init(.rollouts, rollout.text) }

    init(_ bucket: Bucket, _ text: String) throws(Failure) {
        guard let name = RecordName(text) else {
            throw .usage("'\(text)' is not a name of a record", hint: "use letters, digits, _ and -")
        }
        self.init(bucket, name)
    }
}
