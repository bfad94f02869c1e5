import Glibc
import OTAFirmware
import OTASigning
import SystemPackage
import Testing

@Suite("Loading trusted keys") struct TrustStoreTests {
    private let folder: TemporaryFolder
    private let first, second: PublicKey

    init() throws {
        folder = try TemporaryFolder()
        first = try PublicKey(bytes: RFC8032.test1.publicKey)
        second = try PublicKey(bytes: RFC8032.test2.publicKey)
    }

    @Test("key files are loaded by path, and from a folder only *.pub.pem")
    func loadsFilesAndFolders() throws {
        let trust = try folder.makeFolder("trust")
        try folder.write("trust/one.pub.pem", first.pem().bytes)
        try folder.write("trust/README", "not a key".utf8)
        try folder.write("trust/two.pem", "not counted".utf8)
        let file = try folder.write("any name will do", second.pem().bytes)
        let store = try TrustStore(paths: [trust, file])
        #expect(store.keys == [first, second].sorted { $0.id < $1.id })
        #expect(store[first.id] == first)
        #expect(store[second.id] == second)
        #expect(store[try PublicKey(bytes: RFC8032.test3.publicKey).id] == nil)
    }

    @Test("the same key in two files is loaded once")
    func theSameKeyTwiceIsFine() throws {
        let one = try folder.write("one.pub.pem", first.pem().bytes)
        try folder.write("two.pub.pem", first.pem().bytes)
        #expect(try TrustStore(paths: [one, folder.path]).keys == [first])
    }

    @Test("a symbolic link to a key file is followed")
    func aLinkInAFolderIsFollowed() throws {
        let trust = try folder.makeFolder("trust")
        try folder.write("key", first.pem().bytes)
        #expect(symlink("../key", trust.appending("linked.pub.pem").string) == 0)
        #expect(try TrustStore(paths: [trust]).keys == [first])
    }

    @Test("paths without any key are refused")
    func noKeyAtAllIsAnError() throws {
        #expect(throws: KeyError(.noTrustedKey, "")) { try TrustStore(paths: []) }
        let error = #expect(throws: KeyError(.noTrustedKey, "")) { try TrustStore(paths: [folder.path]) }
        #expect(error?.context.contains(folder.path.string) == true)
    }

    @Test("a missing path is refused and named in the error")
    func aMissingPathIsAnError() throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        let error = #expect(throws: KeyError(.noSuchFile, "")) {
            try TrustStore(paths: [folder.path, folder / "missing"])
        }
        #expect(error?.context.contains("missing") == true)
    }

    @Test(
        "a file that is not an Ed25519 key is refused and named in the error, and beside a key it does not stop this key"
    )
    func whatIsNoKeyIsAnErrorWithItsName() async throws {
        let pair = try await OpenSSLCommand.run("genpkey", "-algorithm", "X25519")
        try folder.write("other.pub.pem", try await OpenSSLCommand.run("pkey", "-pubout", input: pair))
        let error = #expect(throws: KeyError(.wrongAlgorithm, "")) { try TrustStore(paths: [folder.path]) }
        #expect(error?.context.hasPrefix("\(folder.path)/other.pub.pem: ") == true)

        try folder.write("other.pub.pem", "nonsense".utf8)
        #expect(throws: KeyError(.notAKey, "")) { try TrustStore(paths: [folder.path]) }
        unlink((folder / "other.pub.pem").string)
        _ = try folder.makeFolder("other.pub.pem")
        #expect(throws: KeyError(.notAFile, "")) { try TrustStore(paths: [folder.path]) }

        try folder.write("one.pub.pem", first.pem().bytes)
        #expect(symlink("nowhere", (folder / "third.pub.pem").string) == 0)
        let store = try TrustStore(paths: [folder.path])
        #expect(store.keys == [first] && store.unusable.map(\.code) == [.notAFile, .noSuchFile])
        #expect(store.unusable.first?.context.hasPrefix("\(folder.path)/other.pub.pem: ") == true)
        // A file that the user named is necessary.
        #expect(throws: KeyError(.noSuchFile, "")) { try TrustStore(paths: [folder.path, folder / "third.pub.pem"]) }
    }

    @Test("a key in a folder that others can change is not trusted, and the other keys are")
    func writableKeyBesideAnother() throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        try folder.write("two.pub.pem", second.pem().bytes, mode: FilePermissions(rawValue: 0o666))
        let store = try TrustStore(paths: [folder.path])
        #expect(store.keys == [first] && store.unusable.map(\.code) == [.trustPermissions])
    }

    @Test("a key in a folder whose scope file is damaged is not trusted, also if another file has it without a scope")
    func damagedScopeBesideAnother() throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        try folder.write("two.pub.pem", second.pem().bytes)
        try folder.write("two.pub.pem.scope", "produkt = demo\n".utf8)
        try folder.write("without.pub.pem", second.pem().bytes)
        let store = try TrustStore(paths: [folder.path])
        #expect(store.keys == [first] && store.unusable.map(\.code) == [.badTrustScope])
    }

    /// Creates a trust folder with one key, in the folder `parent`.
    private func trustFolder() throws -> (trust: FilePath, file: FilePath) {
        _ = try folder.makeFolder("parent")
        let trust = try folder.makeFolder("parent/trust")
        return (
            trust, try folder.write("parent/trust/one.pub.pem", first.pem().bytes, mode: [.ownerReadWrite, .otherRead])
        )
    }

    @Test(
        "a trust folder is refused if others can write to a key in it, to the folder, or to a folder above it",
        arguments: ["parent/trust/one.pub.pem", "parent/trust", "parent"], [0o020, 0o002] as [CInterop.Mode])
    func writableForOthers(place: String, bit: CInterop.Mode) throws {
        let (trust, file) = try trustFolder()
        #expect(try TrustStore(paths: [trust]).keys == [first])
        #expect(try TrustStore(paths: [file]).keys == [first])
        let changed = folder / place
        try changeMode(changed, FilePermissions(rawValue: (place.hasSuffix(".pem") ? 0o600 : 0o700) | bit))
        for path in [trust, file] {
            let error = #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [path]) }
            #expect(error?.hint == "chmod go-w \(changed)")
            #expect(error?.context.contains("\(changed)") == true)
        }
    }

    @Test("one error lists all folders of a path that others can write to")
    func allWritableFolders() throws {
        let (trust, _) = try trustFolder()
        for place in ["parent", "parent/trust"] { try changeMode(folder / place, FilePermissions(rawValue: 0o775)) }
        let error = #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [trust]) }
        #expect(error?.hint == "chmod go-w \(folder / "parent") \(trust)")
    }

    @Test("a trust folder below a sticky folder is accepted, and a sticky trust folder is refused")
    func sticky() throws {
        let (trust, _) = try trustFolder()
        try changeMode(folder / "parent", FilePermissions(rawValue: 0o1777))
        #expect(try TrustStore(paths: [trust]).keys == [first])
        try changeMode(trust, FilePermissions(rawValue: 0o1777))
        #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [trust]) }
    }

    @Test(
        "a sticky trust folder is refused for every spelling of its path",
        arguments: ["parent/trust/.", "parent/trust/x/..", "link", "link/."])
    func stickyByAnotherPath(path: String) throws {
        let (trust, _) = try trustFolder()
        _ = try folder.makeFolder("parent/trust/x")
        #expect(symlink("parent/trust/x/..", (folder / "link").string) == 0)
        #expect(try TrustStore(paths: [folder / path]).keys == [first])
        try changeMode(trust, FilePermissions(rawValue: 0o1777))
        #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [folder / path]) }
    }

    @Test("each folder on the path of a symbolic link to trusted keys is checked", arguments: [true, false])
    func symbolicLinks(isRelative: Bool) throws {
        let (trust, file) = try trustFolder()
        let link = folder / "link"
        #expect(symlink(isRelative ? "./x/../parent/trust" : trust.string, link.string) == 0)
        _ = try folder.makeFolder("x")
        #expect(symlink(file.string, (folder / "x").appending("one.pub.pem").string) == 0)
        #expect(try TrustStore(paths: [link, folder / "x"]).keys == [first])
        try changeMode(folder / "parent", FilePermissions(rawValue: 0o777))
        for path in [link, folder / "x"] {
            let error = #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [path]) }
            #expect(error?.hint == "chmod go-w \(folder / "parent")")
        }
        unlink(link.string)
        #expect(symlink("link", link.string) == 0)
        #expect(throws: KeyError.self) { try TrustStore(paths: [link]) }
    }

    @Test(
        "a trust folder, a key or a folder above it that belongs to another user is refused",
        .enabled(if: geteuid() == 0))
    func otherOwner() throws {
        for place in ["parent/trust/one.pub.pem", "parent/trust", "parent"] {
            let (trust, _) = try trustFolder()
            #expect(chown((folder / place).string, 65534, 65534) == 0)
            let error = #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [trust]) }
            #expect(
                error?.context.contains("\(folder / place) belongs to the user 65534") == true,
                "\(error?.context ?? "")")
            try folder.remove("parent")
        }
    }

    @Test("a link in a sticky folder that belongs to another user is refused", .enabled(if: geteuid() == 0))
    func otherOwnersLink() throws {
        let (trust, _) = try trustFolder()
        let sticky = try folder.makeFolder("sticky", mode: FilePermissions(rawValue: 0o1777))
        let link = sticky.appending("trust")
        #expect(symlink(trust.string, link.string) == 0)
        #expect(try TrustStore(paths: [link]).keys == [first])
        #expect(lchown(link.string, 65534, 65534) == 0)
        #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [link]) }
    }

    @Test("for a key file that the user named, only the file's own permissions are checked")
    func chosenFile() throws {
        let (trust, file) = try trustFolder()
        try changeMode(folder / "parent", FilePermissions(rawValue: 0o777))
        #expect(try TrustStore(paths: [file], filesAreChosen: true).keys == [first])
        #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [trust], filesAreChosen: true) }
        try changeMode(file, FilePermissions(rawValue: 0o602))
        let error = #expect(throws: KeyError(.trustPermissions, "")) {
            try TrustStore(paths: [file], filesAreChosen: true)
        }
        #expect(error?.hint == "chmod o-w \(file)")
    }

    // MARK: Scopes

    @Test("a scope file beside a key file limits the key, also if the user names the key file")
    func readsScopes() throws {
        let trust = try folder.makeFolder("trust")
        let one = try folder.write("trust/one.pub.pem", first.pem().bytes)
        try folder.write("trust/two.pub.pem", second.pem().bytes)
        try folder.write("trust/one.pub.pem.scope", "product = demo\n".utf8)
        for path in [trust, one] {
            let store = try TrustStore(paths: [path])
            #expect(store.scope(of: first.id)?.products == [try #require(ProductName("demo"))])
            #expect(store.scope(of: first.id)?.file == trust.appending("one.pub.pem.scope"))
            #expect(store.scope(of: second.id) == nil)
        }
    }

    @Test("a scope file without a key file is refused")
    func refusesAnOrphan() throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        for name in ["one.scope", "two.pub.pem.scope", "one.pub.scope"] {
            let path = try folder.write(name, "product = demo\n".utf8)
            let error = #expect(throws: KeyError(.badTrustScope, "")) { try TrustStore(paths: [folder.path]) }
            #expect(error?.context.hasPrefix("\(path): ") == true)
            unlink(path.string)
        }
    }

    @Test("a scope file that is a dangling link, a folder, empty or too long is refused")
    func refusesWhatCannotBeRead() throws {
        let file = try folder.write("one.pub.pem", first.pem().bytes)
        let scope = FilePath(file.string + ".scope")
        func refusal(_ path: FilePath) -> KeyError.Code? {
            #expect(throws: KeyError.self) { try TrustStore(paths: [path]) }?.code
        }
        #expect(symlink("nowhere", scope.string) == 0)
        #expect(refusal(file) == .noSuchFile && refusal(folder.path) == .noSuchFile)
        unlink(scope.string)
        _ = try folder.makeFolder("one.pub.pem.scope")
        #expect(refusal(file) == .notAFile && refusal(folder.path) == .notAFile)
        rmdir(scope.string)
        try folder.write("one.pub.pem.scope", [])
        #expect(refusal(file) == .badTrustScope)
        try folder.write("one.pub.pem.scope", Array(repeating: UInt8(ascii: "\n"), count: 1 << 20))
        #expect(refusal(file) == .tooLarge)
    }

    @Test("a scope file that other users can write to is refused")
    func refusesAnOpenScope() throws {
        let file = try folder.write("one.pub.pem", first.pem().bytes)
        let scope = try folder.write(
            "one.pub.pem.scope", "product = demo\n".utf8, mode: FilePermissions(rawValue: 0o666))
        for path in [file, folder.path] {
            let error = #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [path]) }
            #expect(error?.hint == "chmod go-w \(scope)")
        }
        #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [file], filesAreChosen: true) }
    }

    @Test("a key with two different scopes is refused, and with two equal scopes accepted")
    func refusesTwoScopes() throws {
        try folder.write("one.pub.pem", first.pem().bytes)
        try folder.write("two.pub.pem", first.pem().bytes)
        try folder.write("one.pub.pem.scope", "product = demo, other\n".utf8)
        let error = #expect(throws: KeyError(.badTrustScope, "")) { try TrustStore(paths: [folder.path]) }
        let files = "\(folder / "one.pub.pem.scope") and \(folder / "two.pub.pem")"
        #expect(error?.context == "the key \(first.id) has two different scopes: \(files)")
        #expect(error?.hint?.contains("equal") == true)
        try folder.write("two.pub.pem.scope", "product = other, demo\n".utf8)
        #expect(try TrustStore(paths: [folder.path]).keys == [first])
        try folder.write("two.pub.pem.scope", "product = other, demo\nformat = bundle\n".utf8)
        #expect(throws: KeyError(.badTrustScope, "")) { try TrustStore(paths: [folder.path]) }
    }

    @Test("the scope files beside a link, beside its target and beside each link between them apply")
    func scopeOfALinkedKey() throws {
        let trust = try folder.makeFolder("trust")
        for name in ["between", "vendor"] { _ = try folder.makeFolder(name) }
        let link = trust.appending("one.pub.pem")
        try folder.write("vendor/acme.pem", first.pem().bytes)
        #expect(symlink("../vendor/acme.pem", (folder / "between/key").string) == 0)
        #expect(symlink((folder / "between/key").string, link.string) == 0)
        for name in ["vendor/acme.pem.scope", "between/key.scope", "trust/one.pub.pem.scope"] {
            let scope = try folder.write(name, "product = demo\n".utf8)
            for path in [trust, link] {
                for isChosen in [false, true] {
                    let store = try TrustStore(paths: [path], filesAreChosen: isChosen)
                    let found = try #require(store.scope(of: first.id), "no scope from \(name)")
                    #expect(found.products == [try #require(ProductName("demo"))])
                    #expect(found.file.lastComponent == scope.lastComponent)
                }
            }
            unlink(scope.string)
        }
        #expect(try TrustStore(paths: [trust]).scope(of: first.id) == nil)
    }

    @Test("different scopes beside a link and beside its target are refused, and the error names both")
    func differentScopesOfALinkedKey() throws {
        let trust = try folder.makeFolder("trust")
        let link = trust.appending("one.pub.pem")
        try folder.write("key", first.pem().bytes)
        #expect(symlink("../key", link.string) == 0)
        try folder.write("key.scope", "product = demo\n".utf8)
        let beside = try folder.write("trust/one.pub.pem.scope", "product = demo, other\n".utf8)
        for path in [trust, link] {
            let error = #expect(throws: KeyError(.badTrustScope, "")) { try TrustStore(paths: [path]) }
            let files = "\(beside) and \(trust)/../key.scope"
            #expect(error?.context == "the key \(first.id) has two different scopes: \(files)")
        }
        try folder.write("trust/one.pub.pem.scope", "product = demo\n".utf8)
        #expect(try TrustStore(paths: [trust]).scope(of: first.id)?.file == beside)
        // The permissions of the scope file beside the target are checked too.
        try folder.write("key.scope", "product = demo\n".utf8, mode: FilePermissions(rawValue: 0o666))
        #expect(throws: KeyError(.trustPermissions, "")) { try TrustStore(paths: [trust]) }
    }

    // MARK: /proc

    @Test("a trust path through /proc is refused, also by a symbolic link, unless the user named the file")
    func pathThroughProc() throws {
        let trust = try folder.makeFolder("trust")
        let file = try folder.write("trust/one.pub.pem", first.pem().bytes)
        let directory = open(trust.string, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(directory) }
        let magic = FilePath("/proc/self/fd/\(directory)")
        #expect(symlink(magic.string, (folder / "link").string) == 0)
        for path in [magic, magic.appending("one.pub.pem"), FilePath("/dev/fd/\(directory)"), folder / "link"] {
            let error = #expect(throws: KeyError(.relativeTrustPath, ""), "\(path)") { try TrustStore(paths: [path]) }
            #expect(error?.context.contains("/proc") == true && error?.hint?.contains("realpath \(path)") == true)
        }
        #expect(try TrustStore(paths: [magic.appending("one.pub.pem")], filesAreChosen: true).keys == [first])
        #expect(try TrustStore(paths: [file]).keys == [first])
    }

    /// The search for these two keys with the same ID needed 2^32 hashes, minutes on one processor core. So an ID selects a key, but it
    /// does not prove the signer.
    @Test("two different keys with the same ID are refused")
    func twoDifferentKeysOfOneIDAreRefused() throws {
        let twins = try ["cf29b1f98c0952a6", "5070aeaf4ab33121"].map { end in
            try PublicKey(bytes: Array("two keys, one id: ed2551".utf8) + #require(Hex.decode(end)))
        }
        #expect(twins.map(\.id.description) == ["d09c87303cdff7ba", "d09c87303cdff7ba"])
        #expect(twins[0] != twins[1])
        #expect(throws: KeyError(.keyIDConflict, "")) { try TrustStore(twins) }
        #expect(throws: Never.self) { try TrustStore([twins[0], first, twins[0]]) }

        try folder.write("one.pub.pem", twins[0].pem().bytes)
        try folder.write("two.pub.pem", twins[1].pem().bytes)
        let error = #expect(throws: KeyError(.keyIDConflict, "")) { try TrustStore(paths: [folder.path]) }
        #expect(error?.context.hasPrefix("\(folder.path)/two.pub.pem: ") == true)
    }
}
