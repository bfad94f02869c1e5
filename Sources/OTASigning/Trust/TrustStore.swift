public import OTAFirmware
public import SystemPackage

/// The public keys that are trusted, by id.
public struct TrustStore: Sendable {
    private var keysByID: [KeyID: PublicKey] = [:]

    /// - Throws: `key-id-conflict` where two different keys have one id. The same key twice is fine.
    public init(_ keys: some Sequence<PublicKey>) throws(KeyError) {
        for key in keys { try add(key) }
    }

    /// Loads files, and folders, in which the files `*.pub.pem` count.
    ///
    /// - Parameter filesAreChosen: the user has chosen each path in this very command. Of a path to a file it is checked only that not
    ///   everybody may write to the file: what may lie in a folder that belongs to others is their own decision.
    /// - Throws: `no-such-file`; `trust-open-to-others` for a path that others than root and the caller can change (`OwnedPath`);
    ///   `no-trusted-key` where none was found; `key-id-conflict`; what `KeyFile.publicKey(at:)` throws, with the path.
    public init(paths: [FilePath], filesAreChosen: Bool = false) throws(KeyError) {
        for path in paths {
            let named = try SmallFile(path)
            guard named.isFolder else {
                if filesAreChosen { try Self.check(named) } else { try OwnedPath.check(path) }
                try add(named.publicKey(), from: path)
                continue
            }
            try OwnedPath.check(path)
            for name in try TrustFolder.keyFiles(in: path) {
                let file = path.appending(name)
                try OwnedPath.check(file)
                try add(SmallFile(file).publicKey(), from: file)
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

    private mutating func add(_ key: PublicKey, from path: FilePath? = nil) throws(KeyError) {
        guard let known = keysByID.updateValue(key, forKey: key.id), known != key else { return }
        let place = path.map { "\($0): " } ?? ""
        throw KeyError(.keyIDConflict, "\(place)another key with the id \(key.id) is trusted already")
    }

    /// Refuses a file that everybody may write to.
    private static func check(_ file: SmallFile) throws(KeyError) {
        // A device is writable for everybody, and holds no key.
        try file.expectFile()
        guard !file.status.permissions.contains(.otherWrite) else {
            throw KeyError(
                .trustOpenToOthers, "\(file.path): anybody may write to it, and so decide what is trusted",
                hint: "chmod o-w \(file.path.string.shellQuoted)")
        }
    }
}
