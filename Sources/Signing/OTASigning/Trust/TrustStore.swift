internal import Glibc
public import OTAFirmware
public import SystemPackage

/// The trusted public keys with their scopes (``TrustScope``). Each key has a different ID.
///
/// All keys except ML-DSA keys can verify MCUboot images. The Ed25519 and ML-DSA keys can verify bundles.
public struct TrustStore: Sendable {
    private var keysByID: [KeyID: ImagePublicKey] = [:]
    private var scopesByID: [KeyID: TrustScope] = [:]
    private var pathsByID: [KeyID: FilePath] = [:]
    /// The errors of the key files and scope files in the folders that cannot be used. A key whose scope cannot be used is not trusted.
    public private(set) var unusable: [KeyError] = []

    /// The conditions of all folders with keys. For each condition, the strictest one applies, to every file.
    public private(set) var policy = FolderPolicy()

    /// Creates a store of these keys, without scopes and without a policy. `keys` may contain the same key twice.
    ///
    /// - Throws: `key-id-conflict` if two different keys have the same ID.
    public init(_ keys: some Sequence<PublicKey>) throws(KeyError) {
        for key in keys { try add(ImagePublicKey(key), nil) }
    }

    /// Creates a store of these keys, without scopes. `keys` may contain the same key twice. Only the Ed25519 and ML-DSA keys can verify
    /// bundles.
    ///
    /// - Throws: `key-id-conflict` if two different keys have the same ID.
    public init(imageKeys keys: some Sequence<ImagePublicKey>) throws(KeyError) {
        for key in keys { try add(key, nil) }
    }

    /// Loads key files. A path can name a key file, or a folder with key files `*.pub.pem`. A key file in a folder that cannot be used, or
    /// whose scope file cannot be used, does not stop the other keys: its error is in `unusable`.
    ///
    /// A scope file limits its key (``TrustScope``). If a key file is a symbolic link, both the scope file next to the link and the scope
    /// file next to the link's target apply. If both exist, they must be equal.
    ///
    /// The policies of all folders apply: of each folder that `paths` names, and of the folder of each key file and of its link's target
    /// (``FolderPolicy``).
    ///
    /// - Parameter filesAreChosen: whether the user named the paths in the current command. If true, `OwnedPath` does not check a key file
    ///   that `paths` names, because the user has chosen this file. The only condition is then that the modes of the key file and of its
    ///   scope file do not give others write access. `OwnedPath` always checks a folder that `paths` names, and the key files in this
    ///   folder.
    /// - Parameter mayBeEmpty: whether a store without keys is permitted. It then has only the policies of the folders: a command that also
    ///   works without trusted keys must not lose a policy.
    /// - Throws: `no-such-file`; `trust-permissions` for a path that users other than root and the caller can change (`OwnedPath`);
    ///   `relative-trust-path` for a path through `/proc`; `no-trusted-key` if no key was found; `key-id-conflict`; `bad-trust-scope` for a
    ///   scope file that is malformed, has no key file, differs from another scope file of the key, or names a wrong partner
    ///   (`checkPartners()`); `bad-trust-policy`; the errors of `KeyFile.publicKey(at:)`.
    public init(paths: [FilePath], filesAreChosen: Bool = false, mayBeEmpty: Bool = false) throws(KeyError) {
        var excluded: Set<KeyID> = []
        for path in paths {
            guard try SmallFile(path).isFolder else {
                try add(
                    Self.key(at: path, isChosen: filesAreChosen), Self.scopes(of: path, isChosen: filesAreChosen),
                    from: path)
                try addPolicies(of: path, isChosen: filesAreChosen)
                continue
            }
            try OwnedPath.check(path)
            try addPolicy(in: path, isChosen: false)
            for name in try TrustFolder.keyFiles(in: path) {
                let file = path.appending(name)
                let key: ImagePublicKey
                do throws(KeyError) { key = try Self.key(at: file, isChosen: false) } catch {
                    // Another file can contain the same key without a scope file.
                    guard TrustScope.path(beside: file) == nil else { throw error }
                    unusable.append(error)
                    continue
                }
                let scopes: [TrustScope]
                do throws(KeyError) { scopes = try Self.scopes(of: file, isChosen: false) } catch {
                    unusable.append(error)
                    excluded.insert(key.id)
                    continue
                }
                try add(key, scopes, from: file)
                try addPolicies(of: file, isChosen: false)
            }
        }
        // Another file can contain the same key without a scope file. The key would then be trusted without its limit.
        for id in excluded { keysByID[id] = nil }
        guard !keysByID.isEmpty else {
            if let error = unusable.first { throw error }
            if mayBeEmpty { return }
            let places = paths.map(\.string).joined(separator: ", ")
            throw KeyError(.noTrustedKey, places.isEmpty ? "no trusted key" : "no trusted key in \(places)")
        }
        try checkPartners()
    }

    /// Checks that two keys of each pair name each other as partners (`TrustScope.partner`), and have different algorithms.
    ///
    /// If only one scope file of the pair had to exist, a lost scope file would make one key of the pair count alone. If two keys could
    /// have the same partner, this partner would complete two signers.
    ///
    /// - Throws: `bad-trust-scope`.
    private func checkPartners() throws(KeyError) {
        for key in imageKeys {
            guard let scope = scopesByID[key.id], let id = scope.partner else { continue }
            let pair = "\(scope.file): the key \(key.id) counts only with the key \(id)"
            guard let partner = self[id] else {
                throw KeyError(
                    .badTrustScope, "\(pair), which is not a trusted key for bundles",
                    hint: "trust the public key \(id), too, with its own scope file; both are from the same keygen")
            }
            guard key.bundleKey != nil, partner.algorithm != key.bundleKey?.algorithm else {
                throw KeyError(
                    .badTrustScope, "\(pair): a pair has two keys for bundles, of different algorithms",
                    hint:
                        "remove the line 'with'; to require several signers, use 'signatures = N' in \(FolderPolicy.name)"
                )
            }
            guard scopesByID[id]?.partner == key.id else {
                throw KeyError(
                    .badTrustScope, "\(pair), but the scope of \(id) does not name \(key.id)",
                    hint:
                        "add the line 'with = \(key.id)' to \(Self.scopeFile(of: pathsByID[id]))")
            }
        }
    }

    private static func scopeFile(of key: FilePath?) -> String { (key?.string ?? "KEY.pub.pem") + TrustScope.suffix }

    /// Counts the signers of a file that these trusted keys have signed.
    func count(of ids: Set<KeyID>) -> SignerCount { SignerCount(ids.compactMap { keysByID[$0] }) }

    /// The keys that can verify bundles (Ed25519 and ML-DSA keys), in ascending order of their IDs.
    public var keys: [PublicKey] { imageKeys.compactMap(\.bundleKey) }

    /// All keys, in ascending order of their IDs.
    public var imageKeys: [ImagePublicKey] { keysByID.values.sorted { $0.id < $1.id } }

    /// The trusted key for bundles with this ID. The value is nil if the store does not contain an Ed25519 or ML-DSA key with this ID.
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
        guard TrustScope.isEqual(scopesByID[key.id], scope) else {
            let files = [scopesByID[key.id]?.file ?? pathsByID[key.id], scope?.file ?? path].compactMap { $0?.string }
            throw KeyError(
                .badTrustScope, "the key \(key.id) has two different scopes: \(files.joined(separator: " and "))",
                hint: "make the scope files of both key files equal, or remove one of the key files")
        }
    }

    private mutating func add(
        _ key: ImagePublicKey, _ scopes: [TrustScope], from path: FilePath
    ) throws(KeyError) {
        try add(key, scopes.first, from: path)
        for scope in scopes.dropFirst() { try add(key, scope, from: path) }
    }

    /// Adds the policies of the folder of a key file and, if this file is a symbolic link, of the folder of its target.
    private mutating func addPolicies(of key: FilePath, isChosen: Bool) throws(KeyError) {
        for name in try OwnedPath.names(of: key) { try addPolicy(in: name.folder, isChosen: isChosen) }
    }

    private mutating func addPolicy(in folder: FilePath, isChosen: Bool) throws(KeyError) {
        guard let path = FolderPolicy.path(in: folder) else { return }
        let text = try Self.guarded(path, isChosen: isChosen).contents()
        policy.add(try FolderPolicy(parsing: text.withUnsafeBytes { Array($0) }, of: path))
    }

    /// Returns the store without its policy, for a file that is only compared and not installed.
    package var withoutPolicy: TrustStore {
        var store = self
        store.policy = FolderPolicy()
        return store
    }

    private static func key(at path: FilePath, isChosen: Bool) throws(KeyError) -> ImagePublicKey {
        try guarded(path, isChosen: isChosen).publicKey()
    }

    /// Returns the scopes of the key in a file. If `path` is a symbolic link, the scope file next to the link's target also applies.
    /// Without this rule, a user who loads the key through a link in another folder would use the key without its limit.
    private static func scopes(of path: FilePath, isChosen: Bool) throws(KeyError) -> [TrustScope] {
        var scopes: [TrustScope] = []
        for name in try OwnedPath.names(of: path) {
            if let scope = try scope(beside: name, isChosen: isChosen) { scopes.append(scope) }
        }
        return scopes
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
    /// - Throws: `read-failed`; `bad-trust-scope` for a scope file without a key file, and `bad-trust-policy` for a name such as
    ///   `trust.policy.txt`, because the name of the file is probably misspelt.
    static func keyFiles(in folder: FilePath) throws(KeyError) -> [String] {
        guard let stream = opendir(folder.string) else {
            throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))")
        }
        defer { closedir(stream) }
        var names: [String] = []
        var scopes: [String] = []
        var misspelt: String?
        while true {
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(suffix) { names.append(name) }
            if name.hasSuffix(TrustScope.suffix) { scopes.append(name) }
            if FolderPolicy.isMisspelt(name) { misspelt = name }
        }
        guard errno == 0 else { throw KeyError(.readFailed, "\(folder): \(Errno(rawValue: errno))") }
        if let orphan = scopes.sorted().first(where: { !names.contains(String($0.dropLast(TrustScope.suffix.count))) })
        {
            throw KeyError(
                .badTrustScope, "\(folder.appending(orphan)): the scope file has no key file in the same folder",
                hint: "rename it to KEY\(suffix)\(TrustScope.suffix), where KEY\(suffix) is its key file")
        }
        if let misspelt {
            throw KeyError(
                .badTrustPolicy, "\(folder.appending(misspelt)): the name of a policy is \(FolderPolicy.name)",
                hint: "rename the file, or remove it")
        }
        return names.sorted()
    }
}
