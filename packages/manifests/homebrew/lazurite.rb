# Not run: there is no Homebrew on the machines of the project.
class Lazurite < Formula
  desc "Azure-compatible Blob, Queue and Table storage in one program"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "MIT"
@if !darwin-arm64@
  depends_on :linux
@end@
@if darwin-arm64@

  on_macos do
    on_arm do
      url "@URL darwin-arm64@"
      sha256 "@SHA256 darwin-arm64@"
    end
@end@
@if darwin-x64@
    on_intel do
      url "@URL darwin-x64@"
      sha256 "@SHA256 darwin-x64@"
    end
@end@
@if darwin-arm64@
  end
@end@

  on_linux do
@if linux-x64@
    on_intel do
      url "@URL linux-x64@"
      sha256 "@SHA256 linux-x64@"
    end
@end@
@if linux-arm64@
    on_arm do
      url "@URL linux-arm64@"
      sha256 "@SHA256 linux-arm64@"
    end
@end@
  end

  def install
    bin.install "bin/lazurite"
  end

  service do
    run [opt_bin/"lazurite", "--location", var/"lazurite", "--silent"]
    keep_alive successful_exit: false
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lazurite --version")
  end
end
