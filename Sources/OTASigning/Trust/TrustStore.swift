internal import Glibc
public import OTAFirmware
public import SystemPackage

/// The trusted public keys with their scopes (``TrustScope``). Each key has a different ID.
///
/// All keys can verify MCUboot images. Only the Ed25519 keys can also verify bundles.
public struct TrustStore: Sendable {
    private var keysByID: [KeyID: ImagePublicKey] = [:]
    private var scopesByID: [KeyID: TrustScope] = [:]
    private var pathsByID: [KeyID: FilePath] = [:]

    /// Creates a store of these keys, without scopes. `keys` may contain the same key twice.
    ///
    /// - Throws: `key-id-conflict` if two different keys have the same ID.
    public init(_ keys: some Sequence<PublicKey>) throws(KeyError) {
        for key in keys { try add(ImagePublicKey(key), nil) }
    }

    /// Creates a store of these keys, without scopes. `keys` may contain the same key twice. Only the Ed25519 keys can also verify bundles.
    ///
    /// - Throws: `key-id-conflict` if two different keys have the same ID.
    public init(imageKeys keys: some Sequence<ImagePublicKey>) throws(KeyError) {
        for key in keys { try add(key, nil) }
    }

    /// Loads key files. A path can name a key file, or a folder with key files `*.pub.pem`.
    ///
    /// A scope file limits its key (``TrustScope``). If a key file is a symbolic link, both the scope file next to the link and the scope
    /// file next to the link's target apply. If both exist, they must be equal.
    ///
    /// - Parameter filesAreChosen: whether the user named the paths in the current command. If true, `OwnedPath` does not check a key file
    ///   that `paths` names, because the user has chosen this file. The only condition is then that the modes of the key file and of its
    ///   scope file do not give others write access. `OwnedPath` always checks a folder that `paths` names, and the key files in this
    ///   folder.
    /// - Throws: `no-such-file`; `trust-permissions` for a path that users other than root and the caller can change (`OwnedPath`);
    ///   `relative-trust-path` for a path through `/proc`; `no-trusted-key` if no key was found; `key-id-conflict`; `bad-trust-scope` for a
    ///   scope file that is malformed, has no key file, or differs from another scope file of the key; the errors of
    ///   `KeyFile.publicKey(at:)`.
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

    /// The keys that can verify bundles (Ed25519 keys), in ascending order of their IDs.
    public var keys: [PublicKey] { imageKeys.compactMap(\.bundleKey) }

    /// All keys, in ascending order of their IDs. Each of these keys can verify MCUboot images.
    public var imageKeys: [ImagePublicKey] { keysByID.values.sorted { $0.id < $1.id } }

    /// The trusted Ed25519 key with this ID. The value is nil if the store does not contain an Ed25519 key with this ID.
    public subscript(id: KeyID) -> PublicKey? { keysByID[id]?.bundleKey }

    /// Returns the scope of the key with this ID. Returns nil if the key has no limit or is not in the store.
    public func scope(of id: KeyID) -> TrustScope? { scopesByID[id] }

    private mutating func add(
        _ key: ImagePublicKey, _ scope: TrustScope?, from path: FilePath? = nil
    ) throws(KeyError) {
        let place = path.map { "\($0): " } ?? ""
        guard let known = keysByID.updateValue(key, forKey: key.id) else {
            scopesByID[key.id] = scope
            pathsByID[key.id] = path
            return
        }
        guard known == key else {
            throw KeyError(.keyIDConflict, "\(place)the store already contains another key with the ID \(key.id)")
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
        // If `path` is a symbolic link, the scope file next to the link's target also applies. Without this rule, a user who loads the key
        // through a link in another folder would use the key without its limit.
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

    /// Opens a key file or scope file and checks that other users cannot change the file.
    private static func guarded(_ path: FilePath, isChosen: Bool) throws(KeyError) -> SmallFile {
        let file = try SmallFile(path)
        // First check that `path` is not a device: all users can write to a device such as /dev/null, so the later checks would throw the
        // misleading error `trust-permissions`.
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

/// Lists the key files in a folder of trusted keys.
private enum TrustFolder {
    private static let suffix = ".pub.pem"

    /// Returns the names of the key files (`*.pub.pem`) in the folder, in alphabetical order.
    ///
    /// - Throws: `read-failed`; `bad-trust-scope` for a scope file without a key file, because the name of the scope file is probably
    ///   misspelt.
    static func keyFiles(in folder: FilePath) throws(KeyError) -> [String] {
        guard let stream = opendir(folder.string) else {
            throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))")
        }
        defer { closedir(stream) }
        var names: [String] = []
        var scopes: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(suffix) { names.append(name) }
            if name.hasSuffix(TrustScope.suffix) { scopes.append(name) }
        }
        guard errno == 0 else { throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))") }
        if let orphan = scopes.sorted().first(where: { !names.contains(String($0.dropLast(TrustScope.suffix.count))) })
        {
            throw KeyError(
                .badTrustScope, "\(folder.appending(orphan)): the scope file has no key file in the same folder",
                hint: "rename it to KEY\(suffix)\(TrustScope.suffix), where KEY\(suffix) is its key file")
        }
        return names.sorted()
    }
}
