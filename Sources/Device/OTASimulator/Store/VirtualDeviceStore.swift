import FoundationEssentials
import Glibc
import OTAFirmware
public import OTAUpdate
public import SystemPackage

/// A folder on disk that contains virtual devices. Each device is a folder `NAME` with two files: `device.json` contains the device's
/// configuration, and `flash` contains the bytes of the device's flash.
///
/// Two processes must not use the same device at the same time. The store does not check this, so the caller must lock the device.
public struct VirtualDeviceStore: Sendable {
    /// The folder that contains the devices' folders. The store creates this folder together with the first device.
    public let folder: FilePath
    /// The kinds of devices. The folder of a device names its protocol.
    let kinds: [any VirtualDeviceKind]

    package init(folder: FilePath, kinds: [any VirtualDeviceKind]) {
        self.folder = folder
        self.kinds = kinds
    }

    /// Creates a store for devices with the GATT OTA profile and with SMP.
    public init(folder: FilePath) { self.init(folder: folder, kinds: [VirtualProfileKind(), VirtualSMPKind()]) }

    /// The rule for device names, as text for the user.
    public static let nameRule = "1 to 63 characters of A-Z a-z 0-9 . _ -, not starting with a point"

    public static func isName(_ text: some StringProtocol) -> Bool {
        // A device name follows the rule for product names, but does not start with a point. A leading point would hide the folder. Also,
        // `..` would be the parent folder.
        ProductName(text) != nil && text.utf8.first != UInt8(ascii: ".")
    }

    /// Creates a device. The device's folder appears only when all its files are complete: this function writes them to a draft folder, and
    /// then renames the draft folder.
    ///
    /// - Parameters:
    ///   - file: the contents of `device.json`.
    ///   - fill: writes the first image to the erased flash.
    /// - Throws: `exists`, `folderExists`, `io`; `badAddress` if the name is invalid; the errors of `fill`.
    package func create(
        _ name: String, _ file: some Encodable, _ layout: FlashLayout, fill: (VirtualFlash) throws -> Void
    ) throws(VirtualDeviceError) {
        let device = try place(of: name)
        guard !exists(name) else { throw VirtualDeviceError(.exists, "the virtual device \(name) already exists") }
        let draft = folder.appending(".\(name).new-\(getpid())")
        try Self.io(draft) {
            try FileManager.default.createDirectory(atPath: draft.string, withIntermediateDirectories: true)
        }
        do throws(VirtualDeviceError) {
            try Self.io(draft) {
                try Self.write(try DeviceJSON.write(file), to: draft.appending("device.json"))
                try Self.write(Array(repeating: 0xFF, count: layout.size), to: draft.appending("flash"))
                try fill(try Self.flash(in: draft, layout, .readWrite))
            }
            // `rename` does not replace a folder that contains files. So the call fails if another process has just created a device with
            // this name.
            guard rename(draft.string, device.string) == 0 else {
                let error = Errno(rawValue: errno)
                guard [.fileExists, .directoryNotEmpty, .notDirectory].contains(error) else {
                    throw VirtualDeviceError(.io, "\(device): \(error)")
                }
                guard exists(name) else {
                    throw VirtualDeviceError(
                        .folderExists, "\(device) exists, and it is not the folder of a virtual device")
                }
                throw VirtualDeviceError(.exists, "the virtual device \(name) already exists")
            }
        } catch {
            try? FileManager.default.removeItem(atPath: draft.string)
            throw error
        }
    }

    /// Returns the names of all devices, sorted.
    ///
    /// - Throws: `io`.
    public func names() throws(VirtualDeviceError) -> [String] {
        guard FileManager.default.fileExists(atPath: folder.string) else { return [] }
        let entries = try Self.io(folder) { try FileManager.default.contentsOfDirectory(atPath: folder.string) }
        return entries.filter { Self.isName($0) && exists($0) }.sorted()
    }

    /// Returns summaries of all devices, sorted by name, and the errors of the devices that the store cannot read. The context of an error
    /// contains the path of the device's file.
    ///
    /// - Throws: `io` if the folder of the devices cannot be read.
    public func list() throws(VirtualDeviceError) -> (
        devices: [VirtualDeviceSummary], unreadable: [(name: String, error: VirtualDeviceError)]
    ) {
        var devices: [VirtualDeviceSummary] = []
        var unreadable: [(name: String, error: VirtualDeviceError)] = []
        for name in try names() {
            do throws(VirtualDeviceError) { devices.append(try summary(of: name)) } catch {
                // Another process can remove a device after the names were listed.
                if error.code != .noSuchDevice { unreadable.append((name, error)) }
            }
        }
        return (devices, unreadable)
    }

    /// Removes a device and its folder.
    ///
    /// - Throws: `noSuchDevice`, `io`; `folderExists` if the folder contains a file that is not of the device; `badAddress` if the name is
    ///   invalid.
    public func remove(_ name: String) throws(VirtualDeviceError) {
        let device = try existing(name)
        let entries = try Self.io(device) { try FileManager.default.contentsOfDirectory(atPath: device.string) }
        if let foreign = entries.sorted().first(where: { !Self.fileNames.contains($0) }) {
            throw VirtualDeviceError(
                .folderExists, "\(device) also contains \(foreign), which is not a file of a virtual device")
        }
        // The new name starts with a point, so the store does not list the folder any more. Without the rename, a partially removed folder
        // could appear as a device.
        let removed = folder.appending(".\(name).removed-\(getpid())")
        guard rename(device.string, removed.string) == 0 else {
            throw VirtualDeviceError(.io, "\(device): \(Errno(rawValue: errno))")
        }
        try Self.io(removed) { try FileManager.default.removeItem(atPath: removed.string) }
    }

    /// Returns the kind of a device.
    ///
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `io`; `badAddress` if the name is invalid.
    package func kind(of name: String) throws(VirtualDeviceError) -> any VirtualDeviceKind {
        // A file without the member `protocol` belongs to a device of the first kind.
        let known = try file(of: name, DeviceJSON.protocolName) ?? kinds[0].updateProtocol.rawValue
        for kind in kinds where kind.updateProtocol.rawValue == known { return kind }
        let names = kinds.map(\.updateProtocol.rawValue).joined(separator: " or ")
        let path = folder.appending(name).appending("device.json")
        throw VirtualDeviceError(.fromNewerVersion, "\(path): unknown protocol '\(known)'; expected \(names)")
    }

    /// Returns the protocol of a device.
    ///
    /// - Throws: as `kind(of:)`.
    public func updateProtocol(of name: String) throws(VirtualDeviceError) -> UpdateProtocol {
        try kind(of: name).updateProtocol
    }

    /// Opens a device with the state in its file `flash`. If the last process that used the device was killed, the device boots as after a
    /// power cut.
    ///
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `badConfiguration`, `io`; `badAddress` if the name is invalid.
    package func open(_ name: String, for use: VirtualDeviceUse) throws(VirtualDeviceError) -> any ObservedDevice {
        try kind(of: name).open(name, in: self, for: use)
    }

    /// The names of the files of a device.
    private static let fileNames = ["device.json", "flash"]

    /// Returns whether the folder of a device exists. A damaged device, in whose folder one of the two files is missing, exists: it can be
    /// removed. A folder without both files is not a device.
    public func exists(_ name: String) -> Bool {
        Self.isName(name)
            && Self.fileNames.contains {
                var status = stat()
                return lstat(folder.appending(name).appending($0).string, &status) == 0
                    && status.st_mode & S_IFMT != S_IFDIR
            }
    }

    /// Checks that a device exists.
    ///
    /// - Throws: `noSuchDevice`; `badAddress` if the name is invalid.
    public func expect(_ name: String) throws(VirtualDeviceError) { _ = try existing(name) }

    private func place(of name: String) throws(VirtualDeviceError) -> FilePath {
        guard Self.isName(name) else {
            throw VirtualDeviceError(
                .badAddress, "'\(name)' is not the name of a virtual device; expected \(Self.nameRule)")
        }
        return folder.appending(name)
    }

    private func existing(_ name: String) throws(VirtualDeviceError) -> FilePath {
        let device = try place(of: name)
        guard exists(name) else {
            let known = (try? names()) ?? []
            let more = known.count > 5 ? " and \(known.count - 5) more" : ""
            let others = known.prefix(5).joined(separator: ", ") + more
            throw VirtualDeviceError(
                .noSuchDevice,
                "no virtual device \(name) in \(folder)" + (others.isEmpty ? "" : ", which has \(others)"))
        }
        return device
    }

    /// Returns the summary of a device.
    ///
    /// - Throws: `noSuchDevice`, `malformed`, `fromNewerVersion`, `io`; `badAddress` if the name is invalid.
    public func summary(of name: String) throws(VirtualDeviceError) -> VirtualDeviceSummary {
        try kind(of: name).summary(of: name, in: self)
    }

    /// Returns the image that the device boots at each boot that does not start a trial.
    package func permanentImage(
        of name: String, _ layout: FlashLayout
    ) throws(VirtualDeviceError) -> BootImage {
        let device = try existing(name)
        let state = VirtualBootloader(flash: try Self.flash(in: device, layout, .readOnly)).state
        guard let state, let image = state.images[state.permanent] else {
            throw VirtualDeviceError(.malformed, "\(device.appending("flash")): the flash contains no boot record")
        }
        return image
    }

    /// Reads and parses `device.json`. If `parse` throws an error, this function adds the file's path to the error's context.
    package func file<Result>(
        of name: String, _ parse: ([UInt8]) throws(VirtualDeviceError) -> Result
    ) throws(VirtualDeviceError) -> Result {
        let path = try existing(name).appending("device.json")
        let json = try Self.io(path) { try Self.read(path) }
        do {
            return try parse(json)
        } catch {
            throw VirtualDeviceError(error.code, "\(path): \(error.context)")
        }
    }

    /// Opens the flash of a device for a device that runs.
    package func flash(of name: String, _ layout: FlashLayout) throws(VirtualDeviceError) -> VirtualFlash {
        try Self.flash(in: existing(name), layout, .readWrite)
    }
}

// MARK: Files

extension VirtualDeviceStore {
    /// The options to open a file in a folder to which other users may have write access. `noFollow` refuses a symbolic link, because
    /// another user could create a link to a file of the user who runs otaflash. The store would then overwrite that file. With
    /// `nonBlocking`, the store does not wait forever if another user has replaced the file by a named pipe.
    private static let foreign: FileDescriptor.OpenOptions = [.closeOnExec, .noFollow, .nonBlocking]

    private static func write(_ bytes: [UInt8], to path: FilePath) throws {
        let file = try FileDescriptor.open(
            path, .writeOnly, options: [.create, .exclusiveCreate, .closeOnExec], permissions: [.ownerReadWrite])
        _ = try file.closeAfter { try file.writeAll(bytes) }
    }

    /// Reads at most the first 64 KiB of a file. A valid `device.json` is much shorter.
    private static func read(_ path: FilePath) throws -> [UInt8] {
        let file = try FileDescriptor.open(path, .readOnly, options: foreign)
        return try file.closeAfter {
            try [UInt8](unsafeUninitializedCapacity: 65536) { buffer, count in
                while count < buffer.count {
                    let rest = UnsafeMutableBufferPointer(rebasing: buffer[count...])
                    let read = try file.read(into: UnsafeMutableRawBufferPointer(rest))
                    if read == 0 { break }
                    count += read
                }
            }
        }
    }

    private static func flash(
        in device: FilePath, _ layout: FlashLayout, _ mode: FileDescriptor.AccessMode
    ) throws(VirtualDeviceError) -> VirtualFlash {
        let path = device.appending("flash")
        return try io(path) {
            let file = try FileDescriptor.open(path, mode, options: foreign)
            do {
                return try VirtualFlash(layout: layout, file: file)
            } catch .invalidArgument {
                throw VirtualDeviceError(
                    .malformed, "\(path): the file does not have \(layout.size) bytes, the size of this device's flash")
            }
        }
    }

    /// Runs `body`. Converts an error that is not a `VirtualDeviceError` to the error `io`, with the path in the error's context.
    private static func io<Result>(_ path: FilePath, _ body: () throws -> Result) throws(VirtualDeviceError) -> Result {
        do {
            return try body()
        } catch let error as VirtualDeviceError {
            throw error
        } catch Errno.noSuchFileOrDirectory {
            throw VirtualDeviceError(.malformed, "the file \(path) is missing")
        } catch {
            throw VirtualDeviceError(.io, "\(path): \(reason(for: error))")
        }
    }

    /// Returns the text of an error for the user. For an error of FileManager, this function returns the text of the underlying POSIX
    /// error, because FileManager's own text is for developers.
    private static func reason(for error: any Error) -> String {
        guard let system = (error as? CocoaError)?.underlying as? POSIXError else { return "\(error)" }
        return "\(Errno(rawValue: system.code.rawValue))"
    }
}

/// An error in the address of a virtual device, or an error of the ``VirtualDeviceStore``. Two errors are equal if their codes are equal.
public struct VirtualDeviceError: Error, Sendable, Equatable {
    /// The error code for scripts. The values do not change between releases.
    public enum Code: String, Sendable, CaseIterable {
        /// The text after `sim:` is not a valid address, or the name of a device is not valid.
        case badAddress = "bad-address"
        /// A value of the configuration is invalid.
        case badConfiguration = "bad-configuration"
        case exists = "device-exists"
        /// The folder with the name of a new device exists, and is not the folder of a device.
        case folderExists = "folder-exists"
        case noSuchDevice = "no-such-device"
        /// The device's folder contains data that no release of otaflash writes, for example a `flash` file of the wrong size.
        case malformed = "device-malformed"
        /// A later release of otaflash has written the device's folder.
        case fromNewerVersion = "device-from-newer-version"
        case io = "device-io"
    }
    public var code: Code
    /// The description of the problem for the user, without a full stop at the end.
    public var context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: VirtualDeviceError, right: VirtualDeviceError) -> Bool { left.code == right.code }
}
