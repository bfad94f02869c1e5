import Glibc
import OTASigning
import SystemPackage
import Testing

@Suite("Key files") struct KeyFileTests {
    @Test("a new key pair has mode 0600 for the private key, and openssl reads it")
    func writesBothHalvesForThoseWhoMayReadThem() async throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate()
        let paths = try KeyFile.write(key, name: folder / "release")
        #expect(folder.names() == ["release.pem", "release.pub.pem"])
        #expect(paths == (folder / "release.pem", folder / "release.pub.pem"))
        #expect(try mode(of: paths.privateKey) == [.ownerReadWrite])
        #expect(try mode(of: paths.publicKey).contains([.ownerReadWrite]))
        #expect(try !mode(of: paths.publicKey).contains(.otherWrite))
        #expect(try PrivateKey(pem: KeyFile.privateKeyText(at: paths.privateKey)).publicKey == key.publicKey)
        #expect(try KeyFile.publicKey(at: paths.publicKey).bundleKey == key.publicKey)
        let publicHalf = try await OpenSSLCommand.run("pkey", "-in", paths.privateKey.string, "-pubout")
        #expect(try publicHalf == contents(of: paths.publicKey))
    }

    @Test("an encrypted key file can be read only with its passphrase")
    func writesAnEncryptedKey() throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate()
        let path = try KeyFile.write(key, name: folder / "release", passphrase: Passphrase("secret")).privateKey
        let text = try KeyFile.privateKeyText(at: path)
        #expect(throws: KeyError(.passphraseRequired, "")) { try PrivateKey(pem: text) }
        #expect(try PrivateKey(pem: text, passphrase: Passphrase("secret")).publicKey == key.publicKey)
    }

    @Test("existing files and links are not overwritten, and no half of the pair is left")
    func overwritesNothing() throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate()
        try folder.write("a.pem", "mine".utf8)
        #expect(throws: KeyError(.exists, "")) { try KeyFile.write(key, name: folder / "a") }
        #expect(folder.names() == ["a.pem"])
        #expect(try contents(of: folder / "a.pem") == Array("mine".utf8))

        try folder.write("b.pub.pem", "mine".utf8)
        #expect(throws: KeyError(.exists, "")) { try KeyFile.write(key, name: folder / "b") }
        #expect(folder.names() == ["a.pem", "b.pub.pem"])
        #expect(try contents(of: folder / "b.pub.pem") == Array("mine".utf8))

        #expect(symlink((folder / "elsewhere").string, (folder / "c.pem").string) == 0)
        #expect(throws: KeyError(.exists, "")) { try KeyFile.write(key, name: folder / "c") }
        #expect(folder.names() == ["a.pem", "b.pub.pem", "c.pem"])
    }

    @Test("the files of a pair name each other, or none of them is left")
    func pairs() throws {
        let keys = (try PrivateKey.generate(), try PrivateKey.generate())
        let names = [
            "a.ed25519.pem", "a.ed25519.pub.pem", "a.ed25519.pub.pem.scope", "a.pem", "a.pub.pem", "a.pub.pem.scope",
        ]
        for existing in names {
            let folder = try TemporaryFolder()
            try folder.write(existing, "mine".utf8)
            #expect(throws: KeyError(.exists, "")) { try KeyFile.write(pair: keys, name: folder / "a") }
            #expect(folder.names() == [existing])
            #expect(try contents(of: folder / existing) == Array("mine".utf8))
        }
        let folder = try TemporaryFolder()
        let paths = try KeyFile.write(pair: keys, name: folder / "a")
        #expect(paths.map(\.publicKey) == [folder / "a.pub.pem", folder / "a.ed25519.pub.pem"])
        #expect(folder.names() == names)
        for (name, partner) in [("a", keys.1), ("a.ed25519", keys.0)] {
            let file = folder / "\(name).pub.pem.scope"
            #expect(try TrustScope(parsing: contents(of: file), of: file).partner == partner.publicKey.id)
            #expect(try mode(of: folder / "\(name).pem") == [.ownerReadWrite])
        }
    }

    @Test("a path that cannot be a new file is refused and leaves no file")
    func writesNothingWhereItCannot() throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate()
        for name in [folder / "missing/release", "", "/", folder / ".."] {
            #expect(throws: KeyError(.cannotCreate, ""), "\(name)") { try KeyFile.write(key, name: name) }
        }
        #expect(folder.names() == [])
    }

    @Test(
        "a private key file with any access for group or others is refused",
        arguments: [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o777, 0o610] as [CInterop.Mode])
    func keyFilePermissions(_ mode: CInterop.Mode) throws {
        let folder = try TemporaryFolder()
        let pem = try PrivateKey.generate().pem().bytes
        let path = try folder.write("it's a key.pem", pem, mode: FilePermissions(rawValue: mode))
        let error = #expect(throws: KeyError(.keyFilePermissions, "")) { try KeyFile.privateKeyText(at: path) }
        #expect(error?.hint == "chmod 600 '\(folder.path)/it'\\''s a key.pem'")
        #expect(error?.context.contains(path.string) == true)
        for mode in [.ownerRead, .ownerReadWrite, .ownerReadWriteExecute] as [FilePermissions] {
            try changeMode(path, mode)
            #expect(try KeyFile.privateKeyText(at: path).bytes == pem)
        }
    }

    @Test("a missing file, a folder and a device are refused")
    func whatIsNoFileIsRefused() throws {
        let folder = try TemporaryFolder()
        #expect(throws: KeyError(.noSuchFile, "")) { try KeyFile.privateKeyText(at: folder / "missing") }
        let file = try folder.write("file", [])
        #expect(throws: KeyError(.noSuchFile, "")) { try KeyFile.privateKeyText(at: file.appending("inside")) }
        #expect(throws: KeyError(.notAFile, "")) { try KeyFile.privateKeyText(at: folder.path) }
        #expect(throws: KeyError(.notAFile, "")) { try KeyFile.publicKey(at: "/dev/zero") }
        #expect(throws: KeyError(.noSuchFile, "")) { try KeyFile.privateKeyText(at: "") }
    }

    @Test("a key file of more than 64 KiB is refused")
    func sizeHasALimit() throws {
        let folder = try TemporaryFolder()
        let most = try folder.write("most.pem", [UInt8](repeating: 10, count: 64 << 10))
        #expect(try KeyFile.privateKeyText(at: most).count == 64 << 10)
        let more = try folder.write("more.pem", [UInt8](repeating: 10, count: (64 << 10) + 1))
        #expect(throws: KeyError(.tooLarge, "")) { try KeyFile.privateKeyText(at: more) }
        let error = #expect(throws: KeyError(.tooLarge, "")) { try KeyFile.publicKey(at: more) }
        #expect(error?.context.contains(more.string) == true)
    }

    /// A shell passes `<(age -d key.age)` as such a path.
    @Test("a private key can be read from a pipe")
    func aPipeWillDo() throws {
        let pem = try PrivateKey.generate().pem().bytes
        let pipe = try FileDescriptor.pipe()
        _ = try pipe.writeEnd.closeAfter { try pipe.writeEnd.writeAll(pem) }
        defer { try? pipe.readEnd.close() }
        #expect(try KeyFile.privateKeyText(at: FilePath("/dev/fd/\(pipe.readEnd.rawValue)")).bytes == pem)
    }

    @Test("reading a named pipe without a writer returns at once")
    func aNamedPipeWithoutAWriterDoesNotHang() throws {
        let folder = try TemporaryFolder()
        #expect(mkfifo((folder / "pipe").string, 0o600) == 0)
        #expect(try KeyFile.privateKeyText(at: folder / "pipe").count == 0)
    }
}
