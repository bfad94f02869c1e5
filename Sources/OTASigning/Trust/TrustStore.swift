public import OTAFirmware
public import SystemPackage

/// The public keys that are trusted, by id.
public struct TrustStore: Sendable {
    private var keysByID: [KeyID: PublicKey] = [:]
    private var scopesByID: [KeyID: TrustScope] = [:]
    private var pathsByID: [KeyID: FilePath] = [:]

    /// - Throws: `key-id-conflict` where two different keys have one id. The same key twice is fine.
    public init(_ keys: some Sequence<PublicKey>) throws(KeyError) {
        for key in keys { try add(key, nil) }
    }

    /// Loads files, and folders, in which the files `*.pub.pem` count. A file with the same name and `.scope` limits a key.
    /// Of a key that is a symbolic link, the scope files beside the link and beside each file that it leads to count.
    ///
    /// - Parameter filesAreChosen: the user has chosen each path in this very command. Of a path to a file it is checked only that not
    ///   everybody may write to the file: what may lie in a folder that belongs to others is their own decision.
    /// - Throws: `no-such-file`; `trust-permissions` for a path that others than root and the caller can change (`OwnedPath`);
    ///   `relative-trust-path` for one that leads through `/proc`;
    ///   `no-trusted-key` where none was found; `key-id-conflict`; `bad-trust-scope` for a scope file that cannot be read, has no key, or
    ///   contradicts another one; what `KeyFile.publicKey(at:)` throws, with the path.
    public init(paths: [FilePath], filesAreChosen: Bool = false) throws(KeyError) {
        for path in paths {
            guard try SmallFile(path).isFolder else {
                try load(path, isChosen: filesAreChosen)
                continue
            }
            try OwnedPath.check(path)
            for name in try TrustFolder.keyFiles(in: path) {
                try load(path.appending(name), isChosen: false)
            }
        }
        guard !keysByID.isEmpty else {
            let places = paths.map(\.string).joined(separator: ", ")
            throw KeyError(.noTrustedKey, places.isEmpty ? "no trusted key" : "no trusted key in \(places)")
        }
    }

    /// Ascending by id.
    public var keys: [PublicKey] { keysByID.values.sorted { $0.id < $1.id } }

    public subscript(id: KeyID) -> PublicKey? { keysByID[id] }

    /// What the key may sign; nil: anything.
    public func scope(of id: KeyID) -> TrustScope? { scopesByID[id] }

    private mutating func add(
        _ key: PublicKey, _ scope: TrustScope?, from path: FilePath? = nil
    ) throws(KeyError) {
        let place = path.map { "\($0): " } ?? ""
        guard let known = keysByID.updateValue(key, forKey: key.id) else {
            scopesByID[key.id] = scope
            pathsByID[key.id] = path
            return
        }
        guard known == key else {
            throw KeyError(.keyIDConflict, "\(place)another key with the id \(key.id) is trusted already")
        }
        guard scopesByID[key.id]?.products == scope?.products, scopesByID[key.id]?.formats == scope?.formats else {
            let files = [scopesByID[key.id]?.file ?? pathsByID[key.id], scope?.file ?? path].compactMap { $0?.string }
            throw KeyError(
                .badTrustScope, "the key \(key.id) has two different scopes: \(files.joined(separator: " and "))",
                hint: "make the scope files of both key files equal, or remove one of the key files")
        }
    }

    private mutating func load(_ path: FilePath, isChosen: Bool) throws(KeyError) {
        let key = try Self.guarded(path, isChosen: isChosen).publicKey()
        // A symbolic link must not remove the scope that lies beside the key.
        var scopes: [TrustScope] = []
        for name in try OwnedPath.names(of: path) {
            if let scope = try Self.scope(beside: name, isChosen: isChosen) { scopes.append(scope) }
        }
        try add(key, scopes.first, from: path)
        for scope in scopes.dropFirst() { try add(key, scope, from: path) }
    }

    private static func scope(beside key: FilePath, isChosen: Bool) throws(KeyError) -> TrustScope? {
        guard let path = TrustScope.path(beside: key) else { return nil }
        let text = try guarded(path, isChosen: isChosen).contents()
        return try TrustScope(parsing: text.withUnsafeBytes { Array($0) }, of: path)
    }

    /// Opens a file that decides what is trusted, unless others can change it.
    private static func guarded(_ path: FilePath, isChosen: Bool) throws(KeyError) -> SmallFile {
        let file = try SmallFile(path)
        // A device is writable for everybody, and holds no key.
        try file.expectFile()
        guard isChosen else {
            try OwnedPath.check(path)
            return file
        }
        guard !file.status.permissions.contains(.otherWrite) else {
            throw KeyError(
                .trustPermissions, "other users can write to \(path), so they can change the trusted keys",
                hint: "chmod o-w \(path.string.shellQuoted)")
        }
        return file
    }
}
